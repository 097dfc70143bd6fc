//! The state directory: loads everything at start, saves and removes while running.

use std::{
    collections::HashSet,
    fs::{self, DirEntry},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::task;
use tracing::{info, warn};

use super::{
    envelope::{self, Untrusted},
    error::CheckpointError,
    order::Order,
    predecessor::Predecessors,
    quarantine::{self, DIRECTORY_MODE},
    record::{Loaded, MemoryKills, PulledImages, Quarantined, Resized, SandboxCheckpoint},
};
use crate::{
    error::chain,
    host::{
        error::HostError,
        file::{self, Durability},
    },
    model::{id::SandboxId, network::PortMapping},
};

/// A state directory. Clones share it; only one process may own it.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    places: Arc<Places>,
    order: Arc<Order<PathBuf>>,
    predecessors: Predecessors,
}

impl Checkpoints {
    /// Makes the directories that are missing.
    ///
    /// # Errors
    /// The directory cannot be made. Blocks; called once, at start.
    pub fn open(state_dir: &Path) -> Result<Self, CheckpointError> {
        let places = Places::under(state_dir);
        file::ensure_directory(&places.sandboxes, DIRECTORY_MODE)?;
        let predecessors = Predecessors::new(state_dir);
        Ok(Self { places: Arc::new(places), order: Order::new(), predecessors })
    }

    /// The directory of another process, or of one to come, with the sandboxes it has checkpoints of.
    /// Changes nothing. Blocks.
    pub fn examine(state_dir: &Path) -> (Self, HashSet<SandboxId>) {
        let places = Places::under(state_dir);
        let found = places.stored();
        let predecessors = Predecessors::new(state_dir);
        (Self { places: Arc::new(places), order: Order::new(), predecessors }, found)
    }

    /// Reads every sandbox, sweeps what half-finished writes left, and moves aside what cannot
    /// be trusted. Never fails: a directory that cannot be read is reported like a bad file.
    pub async fn load(&self) -> Loaded {
        let places = Arc::clone(&self.places);
        let loaded = task::spawn_blocking(move || places.load()).await.unwrap_or_default();
        for Quarantined { path, reason } in &loaded.quarantined {
            warn!(file = %path.display(), reason, "set a checkpoint aside");
        }
        loaded
    }

    /// The sandboxes that there are checkpoints of now, whatever becomes of the directory meanwhile.
    pub async fn stored(&self) -> HashSet<SandboxId> {
        let places = Arc::clone(&self.places);
        task::spawn_blocking(move || places.stored()).await.unwrap_or_default()
    }

    /// Stores a sandbox's facts; the old file stays until the new one is complete.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn save(
        &self,
        checkpoint: &SandboxCheckpoint,
        durability: Durability,
    ) -> Result<(), CheckpointError> {
        let bytes = envelope::seal(checkpoint).map_err(|source| CheckpointError::Encode {
            subject: checkpoint.id.to_string(),
            source,
        })?;
        self.write(self.places.sandbox(&checkpoint.id), bytes, durability).await
    }

    /// Forgets a sandbox, and what cri-dockerd or dockershim kept of it; one that is not there is no
    /// error.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn remove(&self, id: &SandboxId) -> Result<(), CheckpointError> {
        let (predecessors, of) = (self.predecessors.clone(), id.clone());
        let removed = task::spawn_blocking(move || predecessors.remove(&of)).await;
        if let Ok(Err(error)) = removed {
            let error = chain(&error);
            warn!(sandbox = %id, error, "what cri-dockerd or dockershim kept of this pod stays");
        }
        self.erase(self.places.sandbox(id)).await
    }

    /// The host ports that cri-dockerd or dockershim noted of a pod; none where neither made it.
    pub async fn ports_of_predecessor(&self, id: &SandboxId) -> Vec<PortMapping> {
        let (predecessors, id) = (self.predecessors.clone(), id.clone());
        task::spawn_blocking(move || predecessors.ports(&id)).await.unwrap_or_default()
    }

    /// Stores the pod CIDRs that kubelet told us.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn save_pod_cidrs(&self, cidrs: &[String]) -> Result<(), CheckpointError> {
        let body = PodCidrs { pod_cidrs: cidrs.to_vec() };
        let bytes = envelope::seal(&body)
            .map_err(|source| CheckpointError::Encode { subject: POD_CIDRS.to_owned(), source })?;
        self.write(self.places.pod_cidrs.clone(), bytes, Durability::Synced).await
    }

    /// The pod CIDRs of the last run; none when kubelet never told them, or when the file cannot
    /// be trusted (it is then moved aside; kubelet tells them again).
    pub async fn load_pod_cidrs(&self) -> Option<Vec<String>> {
        let places = Arc::clone(&self.places);
        let load = move || places.load_single(&places.pod_cidrs);
        let loaded: Option<PodCidrs> = task::spawn_blocking(load).await.unwrap_or_default();
        loaded.map(|PodCidrs { pod_cidrs }| pod_cidrs)
    }

    /// Stores which images were pulled for kubelet.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn save_pulled(&self, pulled: &PulledImages) -> Result<(), CheckpointError> {
        let bytes = envelope::seal(pulled)
            .map_err(|source| CheckpointError::Encode { subject: PULLED.to_owned(), source })?;
        self.write(self.places.pulled.clone(), bytes, Durability::Written).await
    }

    /// The images pulled for kubelet so far; none when the file is missing or cannot be trusted
    /// (it is then moved aside).
    pub async fn load_pulled(&self) -> PulledImages {
        let places = Arc::clone(&self.places);
        let load = move || places.load_single(&places.pulled);
        task::spawn_blocking(load).await.unwrap_or_default().unwrap_or_default()
    }

    /// Stores which limits were changed; where none were, there is no file.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn save_resized(&self, resized: &Resized) -> Result<(), CheckpointError> {
        if *resized == Resized::default() {
            return self.erase(self.places.resized.clone()).await;
        }
        let bytes = envelope::seal(resized)
            .map_err(|source| CheckpointError::Encode { subject: RESIZED.to_owned(), source })?;
        self.write(self.places.resized.clone(), bytes, Durability::Written).await
    }

    /// The limits changed so far; none when the file is missing or cannot be trusted (it is then
    /// moved aside, and what things were made with counts again).
    pub async fn load_resized(&self) -> Resized {
        let places = Arc::clone(&self.places);
        let load = move || places.load_single(&places.resized);
        task::spawn_blocking(load).await.unwrap_or_default().unwrap_or_default()
    }

    /// Stores what was killed for lack of memory without the engine's knowledge; where nothing was,
    /// there is no file.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn save_memory_kills(&self, kills: &MemoryKills) -> Result<(), CheckpointError> {
        if kills.0.is_empty() {
            return self.erase(self.places.memory_kills.clone()).await;
        }
        let subject = || MEMORY_KILLS.to_owned();
        let bytes = envelope::seal(kills)
            .map_err(|source| CheckpointError::Encode { subject: subject(), source })?;
        self.write(self.places.memory_kills.clone(), bytes, Durability::Written).await
    }

    /// What was killed so far; none when the file is missing or cannot be trusted (it is then moved
    /// aside, and the engine's word counts).
    pub async fn load_memory_kills(&self) -> MemoryKills {
        let places = Arc::clone(&self.places);
        let load = move || places.load_single(&places.memory_kills);
        task::spawn_blocking(load).await.unwrap_or_default().unwrap_or_default()
    }

    async fn erase(&self, path: PathBuf) -> Result<(), CheckpointError> {
        let turn = self.order.turn(&path);
        // Not flushed: a file that comes back after a loss of power is removed again.
        let erase = move || turn.take(|| file::remove_if_present(&path, Durability::Written));
        match task::spawn_blocking(erase).await {
            Ok(Some(erased)) => Ok(erased.map(drop)?),
            Ok(None) => Ok(()),
            Err(_) => Err(CheckpointError::Lost),
        }
    }

    async fn write(
        &self,
        path: PathBuf,
        bytes: Vec<u8>,
        durability: Durability,
    ) -> Result<(), CheckpointError> {
        let turn = self.order.turn(&path);
        let write = move || turn.take(|| replace(&path, &bytes, durability));
        match task::spawn_blocking(write).await {
            Ok(Some(written)) => Ok(written?),
            Ok(None) => Ok(()),
            Err(_) => Err(CheckpointError::Lost),
        }
    }
}

/// Paths below the state directory. Everything here blocks.
#[derive(Debug)]
struct Places {
    sandboxes: PathBuf,
    pod_cidrs: PathBuf,
    pulled: PathBuf,
    resized: PathBuf,
    memory_kills: PathBuf,
    quarantine: PathBuf,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PodCidrs {
    pod_cidrs: Vec<String>,
}

impl Places {
    fn under(state_dir: &Path) -> Self {
        Self {
            sandboxes: state_dir.join("sandboxes"),
            pod_cidrs: state_dir.join(POD_CIDRS),
            pulled: state_dir.join(PULLED),
            resized: state_dir.join(RESIZED),
            memory_kills: state_dir.join(MEMORY_KILLS),
            quarantine: state_dir.join("quarantine"),
        }
    }

    fn sandbox(&self, id: &SandboxId) -> PathBuf {
        self.sandboxes.join(format!("{id}{SUFFIX}"))
    }

    fn stored(&self) -> HashSet<SandboxId> {
        let entries = fs::read_dir(&self.sandboxes).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| SandboxId::try_from(name.strip_suffix(SUFFIX)?).ok()).collect()
    }

    fn load(&self) -> Loaded {
        self.sweep_singles();
        let mut loaded = Loaded::default();
        let listed = fs::read_dir(&self.sandboxes).and_then(Iterator::collect);
        let entries: Vec<DirEntry> = listed.unwrap_or_else(|error: io::Error| {
            let reason = format!("the directory cannot be read: {error}");
            loaded.quarantined.push(Quarantined { path: self.sandboxes.clone(), reason });
            Vec::new()
        });
        for entry in &entries {
            self.load_entry(entry, &mut loaded);
        }
        loaded.sandboxes.sort_by(|a, b| a.id.cmp(&b.id));
        loaded
    }

    /// Names that are neither a checkpoint's nor a draft's are somebody else's business.
    fn load_entry(&self, entry: &DirEntry, loaded: &mut Loaded) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if file::is_draft(&name) {
            sweep(&entry.path());
        } else if let Some(stem) = name.strip_suffix(SUFFIX) {
            match read_sandbox(&entry.path(), stem) {
                Ok(checkpoint) => loaded.sandboxes.push(checkpoint),
                Err(why) => loaded.quarantined.push(self.set_aside(&entry.path(), &why)),
            }
        }
    }

    /// Beside the single files lie other rooms' directories, so only their own drafts are swept.
    fn sweep_singles(&self) {
        let Some(entries) = self.pod_cidrs.parent().and_then(|root| fs::read_dir(root).ok()) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let singles = [POD_CIDRS, PULLED, RESIZED, MEMORY_KILLS];
            let ours = |rest: &str| singles.iter().any(|single| rest.starts_with(single));
            if file::is_draft(&name) && name.strip_prefix('.').is_some_and(ours) {
                sweep(&entry.path());
            }
        }
    }

    /// The one file of its kind.
    fn load_single<T: DeserializeOwned>(&self, path: &Path) -> Option<T> {
        match read(path).and_then(|bytes| bytes.map(|b| envelope::open(&b)).transpose()) {
            Ok(body) => body,
            Err(why) => {
                let Quarantined { path, reason } = self.set_aside(path, &why);
                warn!(file = %path.display(), reason, "set a stored file aside");
                None
            }
        }
    }

    fn set_aside(&self, path: &Path, why: &Untrusted) -> Quarantined {
        quarantine::move_aside(path, &self.quarantine, &why.to_string())
    }
}

/// Writes a file, in a directory that is made again if somebody has deleted it.
fn replace(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), HostError> {
    match (file::replace(path, bytes, durability), path.parent()) {
        (Err(error), Some(directory)) if error.source.kind() == io::ErrorKind::NotFound => {
            warn!(directory = %directory.display(), "the state directory was gone, making it again");
            file::ensure_directory(directory, DIRECTORY_MODE)?;
            file::replace(path, bytes, durability)
        }
        (done, _) => done,
    }
}

fn read_sandbox(path: &Path, stem: &str) -> Result<SandboxCheckpoint, Untrusted> {
    let id = SandboxId::try_from(stem).map_err(|_| Untrusted::Name)?;
    let bytes = read(path)?.ok_or(Untrusted::Empty)?;
    let checkpoint: SandboxCheckpoint = envelope::open(&bytes)?;
    if checkpoint.id == id {
        Ok(checkpoint)
    } else {
        Err(Untrusted::Misnamed { found: checkpoint.id.into() })
    }
}

/// Reads a plain file. Anything else is not even opened: opening a FIFO would wait for ever.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Untrusted> {
    match fs::symlink_metadata(path) {
        Ok(facts) if !facts.is_file() => {
            return Err(Untrusted::Unreadable("not a plain file".to_owned()));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(_) | Err(_) => {}
    }
    let refused = |e: HostError| Untrusted::Unreadable(e.source.to_string());
    file::read_if_present(path, MAX_BYTES).map_err(refused)
}

fn sweep(draft: &Path) {
    match fs::remove_file(draft) {
        Ok(()) => info!(file = %draft.display(), "swept what an unfinished write left"),
        Err(error) => warn!(file = %draft.display(), %error, "cannot sweep an unfinished write"),
    }
}

const SUFFIX: &str = ".json";
const POD_CIDRS: &str = "pod-cidrs.json";
const PULLED: &str = "pulled-images.json";
const RESIZED: &str = "resized.json";
const MEMORY_KILLS: &str = "memory-kills.json";
/// Twice the largest request kubelet can send, which bounds what we could have written.
const MAX_BYTES: u64 = 32 << 20;

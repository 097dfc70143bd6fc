//! The state directory: loads all checkpoint files at the start, and saves and removes them later.

use std::{
    collections::HashSet,
    fs::{self, DirEntry},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tracing::warn;

use super::{
    cri_dockerd::CriDockerdCheckpoints,
    envelope::{self, EMPTY},
    record::{
        ChangesSinceCreate, Loaded, MemoryKills, PodCidrs, PulledImages, Quarantined,
        SandboxCheckpoint, SingleFile,
    },
};
use crate::{
    concurrency::{blocking::blocking, named::Named},
    error::chain,
    host::{
        error::{HostError, OrCannot as _},
        file::{self, Durability},
    },
    model::{id::SandboxId, network::PortMapping},
};

/// A state directory, shared by all clones of this value. Only one process may own a state directory.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    paths: Arc<Paths>,
    writes: Arc<Writes>,
    cri_dockerd: CriDockerdCheckpoints,
}

impl Checkpoints {
    /// Opens the state directory at the start. Creates the state directory and its directory of checkpoint files if
    /// they are missing. Blocks the thread.
    ///
    /// # Errors
    /// A directory cannot be created.
    pub fn open(state_dir: &Path) -> Result<Self, HostError> {
        let checkpoints = Self::new(state_dir);
        file::ensure_directory(&checkpoints.paths.sandboxes, DIRECTORY_MODE)?;
        Ok(checkpoints)
    }

    /// Opens a state directory without creating it, and returns the sandboxes with checkpoint files. Blocks the thread.
    pub fn examine(state_dir: &Path) -> (Self, HashSet<SandboxId>) {
        let checkpoints = Self::new(state_dir);
        let stored = checkpoints.paths.stored();
        (checkpoints, stored)
    }

    fn new(state_dir: &Path) -> Self {
        let paths = Paths { root: state_dir.to_owned(), sandboxes: state_dir.join("sandboxes") };
        Self {
            paths: Arc::new(paths),
            writes: Arc::default(),
            cri_dockerd: CriDockerdCheckpoints::new(state_dir),
        }
    }

    /// Reads the checkpoint files of all sandboxes, removes the drafts of unfinished writes, and moves damaged
    /// checkpoint files to `quarantine` if possible. Reports an unreadable directory of checkpoint files as well.
    pub async fn load(&self) -> Loaded {
        let paths = Arc::clone(&self.paths);
        let loaded = blocking(move || paths.load()).await;
        for Quarantined { path, reason } in &loaded.quarantined {
            warn!(file = %path.display(), reason, "cannot use a checkpoint file or the directory of checkpoint files; a file is moved to quarantine if possible");
        }
        loaded
    }

    /// The sandboxes that have a checkpoint file now.
    pub async fn stored(&self) -> HashSet<SandboxId> {
        let paths = Arc::clone(&self.paths);
        blocking(move || paths.stored()).await
    }

    /// Writes the checkpoint file of a sandbox. The old file stays until the new file is complete.
    pub async fn save(
        &self,
        checkpoint: &SandboxCheckpoint,
        durability: Durability,
    ) -> Result<(), HostError> {
        self.write(self.paths.sandbox(&checkpoint.id), checkpoint, durability).await
    }

    /// Removes the checkpoint file of a sandbox, and the file that cri-dockerd or dockershim has written for the
    /// sandbox. A failure to remove the file of cri-dockerd or dockershim is only logged.
    pub async fn remove(&self, id: &SandboxId) -> Result<(), HostError> {
        let (cri_dockerd, sandbox) = (self.cri_dockerd.clone(), id.clone());
        if let Err(error) = blocking(move || cri_dockerd.remove(&sandbox)).await {
            let error = chain(&error);
            warn!(sandbox = %id, error, "cannot remove a pod's checkpoint file of cri-dockerd or dockershim; the file stays");
        }
        self.remove_file(self.paths.sandbox(id)).await
    }

    /// The host ports in the pod's checkpoint file of cri-dockerd or dockershim; empty without a readable file.
    pub async fn cri_dockerd_ports(&self, id: &SandboxId) -> Vec<PortMapping> {
        let (cri_dockerd, id) = (self.cri_dockerd.clone(), id.clone());
        blocking(move || cri_dockerd.ports(&id)).await
    }

    /// Writes the single file of the type `T`, or removes that file if `body` is empty.
    pub async fn save_file<T: SingleFile>(&self, body: &T) -> Result<(), HostError> {
        let path = self.paths.root.join(T::NAME);
        if *body == T::default() {
            return self.remove_file(path).await;
        }
        self.write(path, body, T::DURABILITY).await
    }

    /// The content of the single file of the type `T`. Empty if the file is missing, damaged or unreadable.
    pub async fn load_file<T: SingleFile>(&self) -> T {
        let paths = Arc::clone(&self.paths);
        blocking(move || paths.load_single(T::NAME)).await.unwrap_or_default()
    }

    async fn remove_file(&self, path: PathBuf) -> Result<(), HostError> {
        // Not synced: dockbridge removes a pod's checkpoint file again if a power loss brings it back.
        let remove = |path: &Path| file::remove_if_present(path, Durability::Written).map(drop);
        self.in_order(path, remove).await
    }

    async fn write<T: Serialize + Sync>(
        &self,
        path: PathBuf,
        body: &T,
        durability: Durability,
    ) -> Result<(), HostError> {
        let bytes = envelope::seal(body).or_cannot("encode", &path)?;
        self.in_order(path, move |path| replace(path, &bytes, durability)).await
    }

    /// Skips `work` if the `work` of a later call for the same file has already run.
    async fn in_order(
        &self,
        path: PathBuf,
        work: impl FnOnce(&Path) -> Result<(), HostError> + Send + 'static,
    ) -> Result<(), HostError> {
        let last = self.writes.last.of(&path.to_string_lossy());
        let number = self.writes.next.fetch_add(1, Ordering::Relaxed);
        blocking(move || {
            let mut last = last.lock();
            if *last > number {
                return Ok(());
            }
            *last = number;
            work(&path)
        })
        .await
    }
}

/// The order of the writes: a blocking thread whose caller was cancelled must not replace newer content with older.
#[derive(Debug, Default)]
struct Writes {
    next: AtomicU64,
    last: Named<Mutex<u64>>,
}

#[derive(Debug)]
struct Paths {
    root: PathBuf,
    sandboxes: PathBuf,
}

impl Paths {
    fn sandbox(&self, id: &SandboxId) -> PathBuf {
        self.sandboxes.join(format!("{id}{SUFFIX}"))
    }

    fn stored(&self) -> HashSet<SandboxId> {
        let entries = fs::read_dir(&self.sandboxes).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| SandboxId::try_from(name.strip_suffix(SUFFIX)?).ok()).collect()
    }

    fn load(&self) -> Loaded {
        self.remove_drafts();
        let mut loaded = Loaded::default();
        let listed = fs::read_dir(&self.sandboxes).and_then(Iterator::collect);
        let entries: Vec<DirEntry> = listed.unwrap_or_else(|error: io::Error| {
            let reason = format!("the directory of checkpoint files cannot be read: {error}");
            loaded.quarantined.push(Quarantined { path: self.sandboxes.clone(), reason });
            Vec::new()
        });
        for entry in &entries {
            self.load_entry(entry, &mut loaded);
        }
        loaded.sandboxes.sort_by(|a, b| a.id.cmp(&b.id));
        loaded
    }

    /// Ignores a file that is neither a `.json` file nor a draft, because dockbridge did not write it.
    fn load_entry(&self, entry: &DirEntry, loaded: &mut Loaded) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if file::is_draft(&name) {
            file::remove_draft(&entry.path());
        } else if let Some(stem) = name.strip_suffix(SUFFIX) {
            match read_sandbox(&entry.path(), stem) {
                Ok(checkpoint) => loaded.sandboxes.push(checkpoint),
                Err(why) => loaded.quarantined.push(self.quarantine(&entry.path(), why)),
            }
        }
    }

    /// Removes only the drafts of single files, because the state directory also has files of other modules.
    fn remove_drafts(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let singles =
                [PodCidrs::NAME, PulledImages::NAME, ChangesSinceCreate::NAME, MemoryKills::NAME];
            let is_ours = |rest: &str| singles.iter().any(|single| rest.starts_with(single));
            if file::is_draft(&name) && name.strip_prefix('.').is_some_and(is_ours) {
                file::remove_draft(&entry.path());
            }
        }
    }

    fn load_single<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let path = self.root.join(name);
        match read(&path).and_then(|bytes| bytes.map(|b| envelope::open(&b)).transpose()) {
            Ok(body) => body,
            Err(why) => {
                let Quarantined { path, reason } = self.quarantine(&path, why);
                warn!(file = %path.display(), reason, "cannot use a file of the state directory; moving it to quarantine if possible, and continuing without its content");
                None
            }
        }
    }

    fn quarantine(&self, path: &Path, reason: String) -> Quarantined {
        match rename_into(path, &self.root.join("quarantine")) {
            Ok(path) => Quarantined { path, reason },
            Err(error) => {
                let reason = format!("{reason}; cannot quarantine the file: {}", error.source);
                Quarantined { path: path.to_owned(), reason }
            }
        }
    }
}

fn replace(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), HostError> {
    match (file::replace(path, bytes, durability), path.parent()) {
        (Err(error), Some(directory)) if error.source.kind() == io::ErrorKind::NotFound => {
            warn!(directory = %directory.display(), "the state directory or a directory in it is missing; creating it again");
            file::ensure_directory(directory, DIRECTORY_MODE)?;
            file::replace(path, bytes, durability)
        }
        (done, _) => done,
    }
}

fn read_sandbox(path: &Path, stem: &str) -> Result<SandboxCheckpoint, String> {
    let id =
        SandboxId::try_from(stem).map_err(|_| "the file's name is not a sandbox id".to_owned())?;
    let bytes = read(path)?.ok_or(EMPTY)?;
    let checkpoint: SandboxCheckpoint = envelope::open(&bytes)?;
    if checkpoint.id == id {
        Ok(checkpoint)
    } else {
        Err(format!("the file has the state of another sandbox, {}", checkpoint.id))
    }
}

/// Opens only regular files, because opening a FIFO would block.
fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match fs::symlink_metadata(path) {
        Ok(facts) if !facts.is_file() => {
            return Err("the file cannot be read: not a plain file".to_owned());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(_) | Err(_) => {}
    }
    let refused = |e: HostError| format!("the file cannot be read: {}", e.source);
    file::read_if_present(path, MAX_BYTES).map_err(refused)
}

/// Only one dockbridge writes to a state directory, so no other process takes a free name in the meantime.
fn rename_into(path: &Path, quarantine: &Path) -> Result<PathBuf, HostError> {
    file::ensure_directory(quarantine, DIRECTORY_MODE)?;
    let name = path.file_name().unwrap_or_default();
    let (mut target, mut serial) = (quarantine.join(name), 0);
    while fs::symlink_metadata(&target).is_ok() {
        serial += 1;
        let mut numbered = name.to_owned();
        numbered.push(format!(".{serial}"));
        target.set_file_name(numbered);
    }
    fs::rename(path, &target).or_cannot("move aside", path)?;
    Ok(target)
}

const SUFFIX: &str = ".json";
/// The largest file that this module reads, in bytes: twice the largest request of kubelet.
const MAX_BYTES: u64 = 32 << 20;
const DIRECTORY_MODE: u32 = 0o700;

//! The files for dockbridge's OCI runtime: the edits of containers, pinned user namespaces, and unpacked container
//! checkpoints. A container's edits are written before it starts, and removed after its removal.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use tracing::warn;

use super::pod_files::named_after_pods;
use crate::{
    concurrency::blocking::blocking,
    error::{Failure, chain},
    host::{
        error::{HostError, OrCannot as _},
        file::if_there,
    },
    model::{engine::EngineInfo, id::SandboxId, oci_edits::OciEdits},
    oci_runtime::directory::EditsDirectory,
};

/// The directories of the edits, of the pinned user namespaces, and of unpacked container checkpoints.
#[derive(Clone, Debug)]
pub struct OciRuntimeFiles {
    directory: EditsDirectory,
    user_pins: PathBuf,
    restores: PathBuf,
}

impl OciRuntimeFiles {
    /// Pinned user namespaces are below `run_dir`. Unpacked container checkpoints, which are large and secret, are
    /// below `state_dir`.
    pub fn new(directory: EditsDirectory, run_dir: &Path, state_dir: &Path) -> Self {
        let (user_pins, restores) = (run_dir.join(USER_PINS), state_dir.join("restores"));
        Self { directory, user_pins, restores }
    }

    /// The directory of the unpacked container checkpoint from which a container starts. The directory exists only
    /// after all files are unpacked.
    pub(super) fn restore(&self, id: &str) -> PathBuf {
        self.restores.join(id).join("complete")
    }

    /// Removes the unpacked container checkpoint of a container. A failed removal is only logged.
    pub(super) async fn remove_restore(&self, id: &str) {
        let unpacked = self.restores.join(id);
        let removed = blocking(move || remove_directory(&unpacked)).await;
        removed.unwrap_or_else(|error| report(id, &error));
    }

    /// The path at which a pod's user namespace is pinned.
    pub fn user_pin(&self, id: &SandboxId) -> PathBuf {
        self.user_pins.join(id.as_str())
    }

    /// The pods that have a pin for a user namespace, even an incomplete pin.
    pub async fn pinned(&self) -> Vec<SandboxId> {
        named_after_pods(&self.user_pins).await
    }

    /// Writes the edits of a container that is about to start, and the id of its engine.
    pub async fn write(
        &self,
        id: &str,
        edits: OciEdits,
        engine: &EngineInfo,
    ) -> Result<(), Failure> {
        let edits = OciEdits { engine: engine.daemon_id.clone(), ..edits };
        self.work(id, move |directory, id| directory.write(id, &edits)).await
    }

    /// Removes a removed container's files for dockbridge's OCI runtime. A failure is logged, and the next sweep tries
    /// again.
    pub async fn remove(&self, id: &str) {
        self.remove_restore(id).await;
        let remove = |directory: &EditsDirectory, id: &str| directory.remove(id);
        self.work(id, remove).await.unwrap_or_else(|error| report(id, &error));
    }

    /// The containers of this engine that have edits, and the containers, of any engine, for which a container
    /// checkpoint is unpacked, even in part. Also the ids of old directories without edits, left for example by a
    /// dockbridge process that ended while it wrote the edits.
    pub async fn ids(&self, engine: &EngineInfo) -> Result<Vec<String>, Failure> {
        let engine = engine.daemon_id.clone();
        let restores = self.restores.clone();
        let directory = self.directory.clone();
        let list = move || {
            let unpacked = fs::read_dir(restores).into_iter().flatten().flatten();
            let unpacked = unpacked.filter_map(|entry| entry.file_name().into_string().ok());
            let mut ids = directory.ids()?;
            ids.retain(|id| match directory.engine(id) {
                Ok(Some(of)) => of == engine,
                Ok(None) => is_abandoned(&directory.of(id)),
                Err(_) => false,
            });
            ids.extend(unpacked);
            Ok(ids)
        };
        blocking(list).await.map_err(|error: HostError| Failure::from(error))
    }

    async fn work<T: Send + 'static>(
        &self,
        id: &str,
        work: impl FnOnce(&EditsDirectory, &str) -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, Failure> {
        let (directory, owner) = (self.directory.clone(), id.to_owned());
        let text = || format!("cannot update the files of container {id} for dockbridge-runtime");
        let done = blocking(move || work(&directory, &owner)).await;
        done.map_err(|error| Failure::from(error).within(text()))
    }
}

fn report(id: &str, error: &dyn Error) {
    let error = chain(error);
    warn!(
        container = id,
        error, "cannot remove a container's files for dockbridge-runtime; retrying later"
    );
}

/// Whether the directory has not changed for [`ABANDONED_AFTER`], so that dockbridge takes it for abandoned.
fn is_abandoned(directory: &Path) -> bool {
    let age = directory.metadata().and_then(|facts| facts.modified());
    age.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > ABANDONED_AFTER))
}

/// Removes a directory with everything in it. Succeeds if the directory does not exist.
pub(super) fn remove_directory(directory: &Path) -> Result<(), HostError> {
    if_there(fs::remove_dir_all(directory)).or_cannot("remove", directory).map(drop)
}

/// The subdirectory of the run directory for pinned user namespaces.
const USER_PINS: &str = "userns";
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

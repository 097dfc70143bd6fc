//! The files for our OCI runtime, which contain the changes of a container. They are written before its
//! start and removed with it. Also the paths at which the user namespaces of pods are pinned, which
//! containers join.

use std::{
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

/// The directories of the edits and of the pins. Clones use the same ones.
#[derive(Clone, Debug)]
pub struct OciRuntimeFiles {
    directory: EditsDirectory,
    user_pins: PathBuf,
    restores: PathBuf,
}

impl OciRuntimeFiles {
    /// User namespaces are pinned below `run_dir`. Unpacked checkpoints are below `state_dir`, because they have the
    /// memory of processes.
    pub fn new(directory: EditsDirectory, run_dir: &Path, state_dir: &Path) -> Self {
        let (user_pins, restores) = (run_dir.join(USER_PINS), state_dir.join("restores"));
        Self { directory, user_pins, restores }
    }

    /// The directory of the checkpoint with which a container begins, once it is complete.
    pub(super) fn restore(&self, id: &str) -> PathBuf {
        self.restores.join(id).join("complete")
    }

    /// Removes all that was unpacked for the start of a container. A failure is logged.
    pub(super) async fn remove_restore(&self, id: &str) {
        let unpacked = self.restores.join(id);
        if let Err(error) = blocking(move || remove_directory(&unpacked)).await {
            let error = chain(&error);
            warn!(container = id, error, "cannot remove the files of dockbridge-runtime; retrying");
        }
    }

    /// The path at which a pod's user namespace is pinned.
    pub fn user_pin(&self, id: &SandboxId) -> PathBuf {
        self.user_pins.join(id.as_str())
    }

    /// The pods that have a pin, even an incomplete one.
    pub async fn pinned(&self) -> Vec<SandboxId> {
        named_after_pods(&self.user_pins).await
    }

    /// Writes the edits of a container of this engine before its start.
    pub async fn write(
        &self,
        id: &str,
        edits: OciEdits,
        engine: &EngineInfo,
    ) -> Result<(), Failure> {
        let edits = OciEdits { engine: engine.daemon_id.clone(), ..edits };
        self.work(id, move |directory, id| directory.write(id, &edits)).await
    }

    /// Removes all files of a container that is gone. A failure is logged, and the next sweep tries again.
    pub async fn remove(&self, id: &str) {
        self.remove_restore(id).await;
        let remove = |directory: &EditsDirectory, id: &str| directory.remove(id);
        if let Err(error) = self.work(id, remove).await {
            let error = chain(&error);
            warn!(container = id, error, "cannot remove the files of dockbridge-runtime; retrying");
        }
    }

    /// The containers of this engine that have a directory. Also old directories without edits, which belong
    /// to no engine: a server ended after it had created the directory.
    pub async fn ids(&self, engine: &EngineInfo) -> Result<Vec<String>, Failure> {
        let engine = engine.daemon_id.clone();
        let restores = self.restores.clone();
        let list = move |directory: &EditsDirectory, _: &str| {
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
        self.work("", list).await
    }

    /// Mounts and files may block, so the work is done on another thread.
    async fn work<T: Send + 'static>(
        &self,
        id: &str,
        work: impl FnOnce(&EditsDirectory, &str) -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, Failure> {
        let (directory, owner) = (self.directory.clone(), id.to_owned());
        let text = || format!("cannot update the files of dockbridge-runtime for container {id}");
        let done = blocking(move || work(&directory, &owner)).await;
        done.map_err(|error| Failure::from(error).within(text()))
    }
}

/// A running server writes the file much sooner after creating the directory.
fn is_abandoned(directory: &Path) -> bool {
    let age = directory.metadata().and_then(|facts| facts.modified());
    age.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > ABANDONED_AFTER))
}

/// Removes a directory with everything in it. Succeeds if there is none.
pub(super) fn remove_directory(directory: &Path) -> Result<(), HostError> {
    if_there(fs::remove_dir_all(directory)).or_cannot("remove", directory).map(drop)
}

/// Subdirectory of the run directory.
const USER_PINS: &str = "userns";
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

//! Checkpoint files of cri-dockerd and dockershim, `<root>/sandbox/<id>`. Such a file holds a pod's host ports.
//! Docker does not have these ports, and CNI's cache has them only if it has an entry for the pod. dockbridge reads the
//! file when it adopts the pod, and removes the file with the pod: otherwise cri-dockerd would still list the pod.
//!
//! dockbridge does not verify the checksum, because it only passes the ports to plugins that release them.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{
    host::{
        error::HostError,
        file::{self, Durability},
    },
    model::{id::SandboxId, network::PortMapping},
    wire::nullable::nullable,
};

/// The directories where cri-dockerd and dockershim may have checkpoint files.
#[derive(Clone, Debug)]
pub(super) struct CriDockerdCheckpoints {
    roots: Vec<PathBuf>,
}

impl CriDockerdCheckpoints {
    /// Searches the default directories of cri-dockerd and dockershim, and dockbridge's state directory: a
    /// unit file may have used the same directory for cri-dockerd.
    pub(super) fn new(state_dir: &Path) -> Self {
        let defaults = ["/var/lib/cri-dockerd", "/var/lib/dockershim"].map(PathBuf::from);
        Self { roots: [state_dir.to_owned()].into_iter().chain(defaults).collect() }
    }

    /// The host ports in a pod's checkpoint file; empty if the file is missing or unreadable. Blocks the thread.
    pub(super) fn ports(&self, id: &SandboxId) -> Vec<PortMapping> {
        self.files(id).find_map(|path| read(&path)).unwrap_or_default()
    }

    /// Removes the checkpoint files of a pod. Blocks the thread.
    ///
    /// # Errors
    /// The first error, except that a missing file is not an error.
    pub(super) fn remove(&self, id: &SandboxId) -> Result<(), HostError> {
        // Only existing files are removed, because on a read-only disk even removing a missing file fails.
        let there = self.files(id).filter(|path| path.symlink_metadata().is_ok());
        let remove = |path: PathBuf| file::remove_if_present(&path, Durability::Written).map(drop);
        there.map(remove).fold(Ok(()), Result::and)
    }

    fn files(&self, id: &SandboxId) -> impl Iterator<Item = PathBuf> {
        self.roots.iter().map(move |root| root.join("sandbox").join(id.as_str()))
    }
}

#[derive(Deserialize)]
struct Stored {
    #[serde(default, deserialize_with = "nullable")]
    data: Data,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Data {
    #[serde(deserialize_with = "nullable")]
    port_mappings: Vec<PortMapping>,
}

fn read(path: &Path) -> Option<Vec<PortMapping>> {
    let is_file = std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_file());
    let bytes = is_file.then(|| file::read_if_present(path, MAX_BYTES))?.ok()??;
    decode(&bytes)
}

pub(super) fn decode(bytes: &[u8]) -> Option<Vec<PortMapping>> {
    let stored: Stored = serde_json::from_slice(bytes).ok()?;
    Some(stored.data.port_mappings)
}

/// The largest file that is read, in bytes: much larger than a checkpoint file with all possible ports.
const MAX_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests;

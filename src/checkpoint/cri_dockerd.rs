//! Checkpoint files of cri-dockerd and dockershim, `<root>/sandbox/<id>`, which hold the host ports of pods. dockbridge
//! reads a pod's file to adopt the pod or to release its network, and removes the file with the pod: otherwise
//! cri-dockerd would still list the pod.
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

#[derive(Clone, Debug)]
pub(super) struct CriDockerdCheckpoints {
    roots: Vec<PathBuf>,
}

impl CriDockerdCheckpoints {
    /// `state_dir` is searched as well: a unit file may have used the same directory for cri-dockerd.
    pub(super) fn new(state_dir: &Path) -> Self {
        let defaults = ["/var/lib/cri-dockerd", "/var/lib/dockershim"].map(PathBuf::from);
        Self { roots: [state_dir.to_owned()].into_iter().chain(defaults).collect() }
    }

    pub(super) fn ports(&self, id: &SandboxId) -> Vec<PortMapping> {
        self.files(id).find_map(|path| read(&path)).unwrap_or_default()
    }

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

/// The largest file that is read, in bytes: enough for tens of thousands of ports.
const MAX_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests;

//! `resolv.conf`, `hosts` and `hostname` of a pod, for containers to bind.
//!
//! Not every engine makes them for a sandbox without an engine network, so dockbridge does. They are
//! complete before a container starts and are not rewritten later. They depend only on the
//! specification and the pod's addresses: after the state directory was lost, the next create
//! makes them again.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::error::ContainerError;
use crate::{
    host::file::{Durability, Readers, replace_for},
    model::{
        id::SandboxId,
        network::{DnsConfig, NetworkMode},
        record::SandboxRecord,
    },
    translate::plan::{
        etc_files::{hostname, hosts, resolv_conf},
        input::PodFiles,
    },
};

/// The directory with one directory per pod.
#[derive(Clone, Debug)]
pub struct PodFilesRoot {
    root: PathBuf,
}

impl PodFilesRoot {
    /// Pods' files live in `root/<sandbox id>/`.
    pub const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Creates missing files and returns the mounts of containers of this pod.
    ///
    /// # Errors
    /// A file cannot be written.
    pub async fn ensure(&self, sandbox: &SandboxRecord) -> Result<PodFiles, ContainerError> {
        let spec = &sandbox.document.spec;
        let own_network = sandbox.document.network == NetworkMode::Cni;
        let resolv_conf = match &spec.dns {
            Some(dns) => Some(resolv_conf(dns)),
            None if own_network => Some(host_resolv_conf().await),
            None => None,
        };
        let hosts = own_network.then(|| hosts(spec, sandbox.addresses()));
        // Engines before 28 make this one themselves, whatever the network.
        let hostname = own_network.then(|| hostname(spec, &sandbox.id));
        let (resolv_conf, hosts, hostname) = tokio::try_join!(
            self.write(&sandbox.id, "resolv.conf", resolv_conf),
            self.write(&sandbox.id, "hosts", hosts),
            self.write(&sandbox.id, "hostname", hostname),
        )?;
        Ok(PodFiles { resolv_conf, hosts, hostname })
    }

    /// The pods that have files.
    pub async fn owners(&self) -> Vec<SandboxId> {
        named_after_pods(&self.root).await
    }

    /// Forgets a pod's files.
    ///
    /// # Errors
    /// The directory cannot be removed.
    pub async fn remove(&self, id: &SandboxId) -> Result<(), ContainerError> {
        let directory = self.root.join(id.as_str());
        match tokio::fs::remove_dir_all(&directory).await {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(ContainerError::file("remove the pod files in", directory, cause))
            }
            _ => Ok(()),
        }
    }

    /// Writes one file unless it is there: containers bind the inode, so it must not change.
    async fn write(
        &self,
        id: &SandboxId,
        name: &str,
        text: Option<String>,
    ) -> Result<Option<PathBuf>, ContainerError> {
        let Some(text) = text else { return Ok(None) };
        let path = self.root.join(id.as_str()).join(name);
        let target = path.clone();
        let written = tokio::task::spawn_blocking(move || write_once(&target, &text))
            .await
            .unwrap_or_else(|lost| Err(io::Error::other(lost)));
        match written {
            Ok(()) => Ok(Some(path)),
            Err(cause) => Err(ContainerError::file("write the pod file", path, cause)),
        }
    }
}

/// The pods that entries of a directory are named after.
pub async fn named_after_pods(directory: &Path) -> Vec<SandboxId> {
    let mut pods = Vec::new();
    let Ok(mut entries) = tokio::fs::read_dir(directory).await else { return pods };
    while let Ok(Some(entry)) = entries.next_entry().await {
        pods.extend(entry.file_name().to_str().and_then(|id| SandboxId::try_from(id).ok()));
    }
    pods
}

fn write_once(path: &Path, text: &str) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let bytes = text.as_bytes();
    replace_for(Readers::Everyone, path, bytes, Durability::Written).map_err(io::Error::other)
}

/// What a pod without DNS settings sees: the host's file, or an empty one.
async fn host_resolv_conf() -> String {
    let empty = || resolv_conf(&DnsConfig::default());
    tokio::fs::read_to_string("/etc/resolv.conf").await.unwrap_or_else(|_| empty())
}

//! The files `resolv.conf`, `hosts` and `hostname` of a pod, which its containers bind-mount.
//!
//! Some versions of Docker do not create `hostname`, `hosts` and `resolv.conf` for a pause container without a Docker
//! network, so CreateContainer writes them. For a pod with DNS settings, it writes `resolv.conf` in every network mode.
//! If the state directory is lost, the next CreateContainer in a pod writes the pod's files again. A pod with a CNI
//! network and without DNS settings gets a copy of the host's `resolv.conf`, unless dockbridge has adopted the pod.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    concurrency::blocking::blocking,
    error::Failure,
    host::{
        error::{HostError, OrCannot as _},
        file::{Durability, if_there, replace_with_mode},
    },
    model::{id::SandboxId, network::NetworkMode, record::SandboxRecord},
    translate::plan::{
        etc_files::{hostname, hosts, resolv_conf},
        input::PodFiles,
    },
};

/// The directory that contains a directory for each pod with files.
#[derive(Clone, Debug)]
pub struct PodFilesRoot {
    root: PathBuf,
}

impl PodFilesRoot {
    /// The files of a pod are in `root/<sandbox id>/`.
    pub const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The directory of a pod, which exists if the pod has files.
    pub fn directory(&self, id: &SandboxId) -> PathBuf {
        self.root.join(id.as_str())
    }

    /// Writes missing and outdated files of the pod, and returns the paths that its containers mount.
    pub async fn ensure(&self, sandbox: &SandboxRecord) -> Result<PodFiles, Failure> {
        let document = &sandbox.document;
        let spec = &document.spec;
        let has_cni = document.network == NetworkMode::Cni;
        let resolv_conf = match &spec.dns {
            Some(dns) => Some(resolv_conf(dns)),
            // dockbridge knows the DNS settings of an adopted pod only from a request for a container. If the request
            // has none, dockbridge writes no file, and the engine mounts the pause container's `resolv.conf`.
            None if document.is_adopted => None,
            None if has_cni => Some(self.host_resolv_conf(&sandbox.id).await),
            None => None,
        };
        let hosts = has_cni.then(|| hosts(spec, sandbox.addresses()));
        // Needed with Docker 28 and newer: older engines create `hostname` themselves for any network.
        let hostname = has_cni.then(|| hostname(spec, &sandbox.id));
        let (resolv_conf, hosts, hostname) = tokio::try_join!(
            self.write(&sandbox.id, RESOLV_CONF, resolv_conf),
            self.write(&sandbox.id, "hosts", hosts),
            self.write(&sandbox.id, "hostname", hostname),
        )?;
        Ok(PodFiles { resolv_conf, hosts, hostname })
    }

    /// The text of the pod's existing file, so that the pod's containers have the same one, otherwise the text of the
    /// host's file. Empty if neither can be read.
    async fn host_resolv_conf(&self, id: &SandboxId) -> String {
        let first = self.directory(id).join(RESOLV_CONF);
        match tokio::fs::read_to_string(first).await {
            Ok(text) => text,
            Err(_) => tokio::fs::read_to_string("/etc/resolv.conf").await.unwrap_or_default(),
        }
    }

    /// The pods that have files, even removed pods.
    pub async fn pods(&self) -> Vec<SandboxId> {
        named_after_pods(&self.root).await
    }

    /// Removes a pod's files.
    pub async fn remove(&self, id: &SandboxId) -> Result<(), Failure> {
        let directory = self.directory(id);
        let removed = if_there(tokio::fs::remove_dir_all(&directory).await);
        removed
            .or_cannot("remove the pod's resolv.conf, hosts and hostname files in", &directory)?;
        Ok(())
    }

    /// Writes one file, if it does not already have this text. Writes the text to a new inode, because running
    /// containers have mounted the old inode, whose text must stay.
    async fn write(
        &self,
        id: &SandboxId,
        name: &str,
        text: Option<String>,
    ) -> Result<Option<PathBuf>, Failure> {
        let Some(text) = text else { return Ok(None) };
        let path = self.directory(id).join(name);
        let target = path.clone();
        match blocking(move || write_if_different(&target, &text)).await {
            Ok(()) => Ok(Some(path)),
            Err(cause) => Err(HostError::new(
                "write the pod's resolv.conf, hosts or hostname file",
                &path,
                cause,
            )
            .into()),
        }
    }
}

/// The pods whose ids are names of entries in `directory`.
pub async fn named_after_pods(directory: &Path) -> Vec<SandboxId> {
    let mut pods = Vec::new();
    let Ok(mut entries) = tokio::fs::read_dir(directory).await else { return pods };
    while let Ok(Some(entry)) = entries.next_entry().await {
        pods.extend(entry.file_name().to_str().and_then(|id| SandboxId::try_from(id).ok()));
    }
    pods
}

fn write_if_different(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|held| held == text) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let bytes = text.as_bytes();
    replace_with_mode(0o644, path, bytes, Durability::Written).map_err(io::Error::other)
}

const RESOLV_CONF: &str = "resolv.conf";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::model::{network::DnsConfig, time::Nanos};

    fn pod(is_adopted: bool, dns: Option<&DnsConfig>) -> Arc<SandboxRecord> {
        let metadata = json!({ "name": "p", "namespace": "n", "uid": "u", "attempt": 0 });
        let document = json!({
            "version": 1, "network": "cni", "is_adopted": is_adopted,
            "spec": { "metadata": metadata, "dns": dns },
        });
        Arc::new(SandboxRecord {
            id: SandboxId::try_from("a".repeat(64)).unwrap(),
            name: "k8s_POD_p_n_u_0".to_owned(),
            document: Arc::new(serde_json::from_value(document).unwrap()),
            created_at: Nanos(1),
            process: None,
            engine_addresses: Vec::new(),
            attachment: None,
        })
    }

    /// Each row has: whether the pod is adopted, the pod's own DNS servers, the servers in the container's
    /// request, and the expected servers.
    #[tokio::test]
    async fn unknown_dns_is_not_the_hosts() {
        let dns = |server: &str| {
            Some(DnsConfig { servers: vec![server.to_owned()], ..DnsConfig::default() })
        };
        let host = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let text = |server: &str| Some(format!("nameserver {server}\n"));
        for (is_adopted, own, requested, expected) in [
            (true, None, dns("10.0.0.1"), text("10.0.0.1")),
            (true, None, None, None),
            (true, None, Some(DnsConfig::default()), None),
            (false, None, dns("10.0.0.1"), Some(host)),
            (false, dns("10.0.0.2"), dns("10.0.0.1"), text("10.0.0.2")),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let files = PodFilesRoot::new(folder.path().to_owned());
            let pod = pod(is_adopted, own.as_ref()).with_settings_if_adopted(requested, None);
            let mounted = files.ensure(&pod).await.unwrap().resolv_conf;
            let seen = mounted.map(|path| fs::read_to_string(path).unwrap());
            assert_eq!(seen, expected, "{is_adopted} {:?}", pod.document.spec.dns);
        }
    }

    /// Earlier dockbridge versions wrote the host's `resolv.conf` for adopted pods.
    #[tokio::test]
    async fn a_wrong_file_is_replaced_and_a_right_one_is_kept() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let files = PodFilesRoot::new(folder.path().to_owned());
        let dns = DnsConfig { options: vec!["ndots:5".to_owned()], ..DnsConfig::default() };
        let pod = pod(true, None).with_settings_if_adopted(Some(dns), None);
        let path = folder.path().join(pod.id.as_str()).join(RESOLV_CONF);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "nameserver 192.0.2.1\n").unwrap();
        let inode = || fs::metadata(&path).unwrap().ino();
        let wrong = fs::File::open(&path).unwrap();
        files.ensure(&pod).await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "options ndots:5\n");
        assert_ne!(
            inode(),
            wrong.metadata().unwrap().ino(),
            "running containers have mounted the old file, so it must be replaced, not overwritten"
        );
        let right = inode();
        files.ensure(&pod).await.unwrap();
        assert_eq!(inode(), right);
    }
}

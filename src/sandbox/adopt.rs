//! Pods without a checkpoint of ours: those that cri-dockerd or dockershim made, and our own when
//! the state directory was lost. How they are connected is found before they are shown, and the
//! checkpoint is written at once; the pods themselves are not touched.
//!
//! The engine says what a pod is; CNI's result cache how it was connected and with which
//! configuration, so that it can be released; where there is no entry, the addresses are read
//! from the pod's own namespace.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::timeout;
use tracing::{info, warn};

use super::pod_network::{checkpoint, netns_dir, pod_network};
use crate::{
    checkpoint::{directory::Checkpoints, record::SandboxCheckpoint},
    engine::client::Engine,
    error::chain,
    host::file::Durability,
    model::{
        attachment::{Attachment, PodNetwork},
        id::SandboxId,
        network::NetworkMode,
        record::{Observed, Process, SandboxRecord},
    },
    network::service::Network,
};

/// Adopts pods. Clones share everything.
#[derive(Clone, Debug)]
pub struct Adopter {
    engine: Engine,
    network: Network,
    checkpoints: Checkpoints,
    /// Pods that have a checkpoint.
    known: Arc<HashSet<SandboxId>>,
    netns_dir: PathBuf,
}

impl Adopter {
    /// For pods whose checkpoint is not among the `known`. Namespaces are pinned below `run_dir`.
    pub fn new(
        engine: Engine,
        network: Network,
        checkpoints: Checkpoints,
        known: HashSet<SandboxId>,
        run_dir: &Path,
    ) -> Self {
        let netns_dir = netns_dir(run_dir);
        Self { engine, network, checkpoints, known: Arc::new(known), netns_dir }
    }

    /// Returns checkpoints for the pods that have none; they are on disk already.
    pub async fn adopt(&self, found: Vec<SandboxRecord>) -> Vec<SandboxCheckpoint> {
        let unknown = found.iter().filter(|pod| !self.known.contains(&pod.id));
        let adopted = join_all(unknown.map(|pod| self.adopt_one(pod))).await;
        adopted.into_iter().flatten().collect()
    }

    async fn adopt_one(&self, pod: &SandboxRecord) -> Option<SandboxCheckpoint> {
        let attachment = self.find(pod).await?;
        let adopted = checkpoint(pod, attachment);
        if let Err(error) = self.checkpoints.save(&adopted, Durability::Synced).await {
            let error = chain(&error);
            warn!(sandbox = %pod.id, error, "cannot write the checkpoint of an adopted pod");
        }
        let addresses = adopted.attachment.as_ref().map(Attachment::addresses).unwrap_or_default();
        info!(sandbox = %pod.id, name = pod.name, ?addresses, "pod without a checkpoint adopted");
        Some(adopted)
    }

    /// How a pod is connected, as far as that can be found; none where nothing has to be released.
    pub async fn find(&self, pod: &SandboxRecord) -> Option<Attachment> {
        if pod.document.network != NetworkMode::Cni {
            return None;
        }
        let network = self.pod_network(pod).await;
        let cached = self.network.attachment_from_cache(network.clone()).await;
        if matches!(cached, Some(Attachment::Ready { .. })) {
            return cached;
        }
        if pod.process.as_ref().is_some_and(Process::is_running) {
            // Without its process nothing is known: it is adopted when it was inspected.
            let pid = self.pid(pod).await?;
            let found = self.network.attachment_from_namespace(network.clone(), pid).await;
            if found.is_some() {
                return found;
            }
        }
        // It is unknown how it was connected. It cannot be ready, but the current network may still
        // know it by its id, so its release is left to be done.
        match cached {
            Some(adding) => Some(adding),
            None => self.network.prepare(network).await.ok().map(Attachment::Adding),
        }
    }

    async fn pod_network(&self, pod: &SandboxRecord) -> PodNetwork {
        let mut network = pod_network(&pod.id, &pod.document.spec, &self.netns_dir);
        if network.ports.is_empty() {
            network.ports = self.checkpoints.cri_dockerd_ports(&pod.id).await;
        }
        network
    }

    async fn pid(&self, pod: &SandboxRecord) -> Option<u32> {
        if let Some(pid) = pod.pid() {
            return Some(pid);
        }
        let inspect = self.engine.inspect_container(pod.id.as_str());
        match timeout(PID_TIMEOUT, inspect).await {
            Ok(Ok(Observed::Sandbox(record))) => record.pid(),
            Ok(Ok(_)) => None,
            Ok(Err(error)) => {
                let error = chain(&error);
                warn!(sandbox = %pod.id, error, "docker inspect of a pod to adopt failed; trying again later");
                None
            }
            Err(_) => {
                warn!(sandbox = %pod.id, "docker inspect of a pod to adopt takes long; trying again later");
                None
            }
        }
    }
}

/// No pod is shown meanwhile.
const PID_TIMEOUT: Duration = Duration::from_secs(2);

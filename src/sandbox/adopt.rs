//! Adopts pods without a checkpoint: those of cri-dockerd or dockershim, and dockbridge's own after the
//! state directory was lost. Their network state is found and their checkpoint is written before they are
//! listed. The pods themselves are not changed.
//!
//! The engine has the pod's configuration. CNI's result cache has its addresses and the network
//! configuration that releases them. If there is no cache entry, the addresses are read in the pod's
//! network namespace.

use std::{
    collections::{BTreeMap, HashSet},
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
    error::{Failure, Kind, chain},
    host::file::Durability,
    model::{
        attachment::{Attachment, AttachmentIntent, PodNetwork},
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
    /// Adopts pods that are not among the `known`. Namespaces are pinned below `run_dir`.
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

    /// Returns the checkpoints of pods that had none, after writing them to disk. Only a pod that CNI
    /// connected gets one.
    pub async fn adopt(&self, found: Vec<SandboxRecord>) -> Vec<SandboxCheckpoint> {
        let connected = found.iter().filter(|pod| pod.document.network == NetworkMode::Cni);
        let unknown = connected.filter(|pod| !self.known.contains(&pod.id));
        let adopted = join_all(unknown.map(|pod| self.adopt_one(pod))).await;
        adopted.into_iter().flatten().collect()
    }

    async fn adopt_one(&self, listed: &SandboxRecord) -> Option<SandboxCheckpoint> {
        let pod = &self.inspected(listed).await?;
        let attachment = self.find(pod).await?;
        let adopted = checkpoint(pod, attachment);
        if let Err(error) = self.checkpoints.save(&adopted, Durability::Synced).await {
            warn!(sandbox = %pod.id, error = chain(&error), "cannot write the checkpoint of an adopted pod; retrying at the next start");
        }
        let addresses = adopted.attachment.as_ref().map(Attachment::addresses).unwrap_or_default();
        info!(sandbox = %pod.id, name = pod.name, ?addresses, "adopted a pod without a checkpoint");
        Some(adopted)
    }

    /// The pod from its inspect, or from the list if the inspect fails or takes long. None if it was
    /// started by hand, from an image with a pod's labels, under the name of that pod.
    pub async fn inspected(&self, listed: &SandboxRecord) -> Option<SandboxRecord> {
        let id = &listed.id;
        match timeout(INSPECT_TIMEOUT, self.engine.inspect_container(id.as_str())).await {
            Ok(Ok(Observed::Sandbox(pod))) => return Some(pod),
            Ok(Ok(Observed::Container(_) | Observed::Foreign(_))) => return None,
            Ok(Err(error)) => {
                warn!(sandbox = %id, error = chain(&error), "docker inspect of a pod to adopt failed; retrying later");
            }
            Err(_) => {
                warn!(sandbox = %id, "docker inspect of a pod to adopt takes long; retrying later");
            }
        }
        Some(listed.clone())
    }

    /// The network state of a pod, as far as it can be found. None if there is nothing to release, or if
    /// this is unknown because the cache cannot be read and the pod does not run.
    pub async fn find(&self, pod: &SandboxRecord) -> Option<Attachment> {
        if pod.document.network != NetworkMode::Cni {
            return None;
        }
        let network = self.pod_network(pod).await;
        let cached = match self.network.attachment_from_cache(network.clone()).await {
            Ok(cached @ Some(Attachment::Ready { .. })) => return cached,
            cached => cached,
        };
        if let Err(error) = &cached {
            warn!(sandbox = %pod.id, error = chain(error), "cannot read the CNI cache for a pod without a checkpoint; retrying when the pod is stopped");
        }
        if pod.process.as_ref().is_some_and(Process::is_running) {
            // Without a pid, the pod is adopted later, after it was inspected.
            let found = self.network.attachment_from_namespace(network.clone(), pod.pid()?).await;
            if found.is_some() {
                return found;
            }
        }
        // The state is unknown. The pod cannot be ready, but the plugins of the current network may know
        // its id, so it is released when it is stopped.
        match cached.ok()? {
            Some(adding) => Some(adding),
            None => self.network.prepare(network).await.ok().map(Attachment::Adding),
        }
    }

    /// What is needed to release the network of a pod whose network state is unknown. None for a pod that
    /// CNI did not connect.
    ///
    /// # Errors
    /// There is no network configuration, or the cache cannot be read. The network cannot be released yet.
    pub async fn find_intent(
        &self,
        pod: &SandboxRecord,
    ) -> Result<Option<AttachmentIntent>, Failure> {
        if pod.document.network != NetworkMode::Cni {
            return Ok(None);
        }
        let network = self.pod_network(pod).await;
        let cached = self.network.attachment_from_cache(network.clone()).await?;
        if let Some(intent) = cached.as_ref().and_then(Attachment::intent) {
            return Ok(Some(intent.clone()));
        }
        match self.network.prepare(network.clone()).await {
            // A pod with such an annotation was never connected, but it must be possible to remove it.
            Err(refused) if refused.kind() == Kind::InvalidArgument => {
                let annotations = BTreeMap::new();
                Ok(Some(self.network.prepare(PodNetwork { annotations, ..network }).await?))
            }
            prepared => Ok(Some(prepared?)),
        }
    }

    async fn pod_network(&self, pod: &SandboxRecord) -> PodNetwork {
        let mut network = pod_network(&pod.id, &pod.document.spec, &self.netns_dir);
        if network.ports.is_empty() {
            network.ports = self.checkpoints.cri_dockerd_ports(&pod.id).await;
        }
        network
    }
}

/// No pod is listed before this ends.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(2);

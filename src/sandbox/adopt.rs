//! Adopts pods without a checkpoint file: those of cri-dockerd or dockershim, and dockbridge's own after the state
//! directory was lost. Writes the checkpoint files of pods with a CNI network before dockbridge lists these pods, or
//! later if dockbridge cannot find their network state or write the files yet. Does not change the pods.
//!
//! The engine has the pod's configuration. CNI's result cache has the addresses and the network configuration
//! for DEL. If the cache has no usable entry and the pod runs, dockbridge reads the addresses in the network namespace.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::timeout;
use tracing::{info, warn};

use super::pod_network::{checkpoint, pod_network};
use crate::{
    checkpoint::{directory::Checkpoints, record::SandboxCheckpoint},
    engine::client::Engine,
    error::{Failure, Kind, chain},
    host::{file::Durability, netns::PinDirectories},
    model::{
        attachment::{Attachment, CniAttachment, PodNetwork},
        id::SandboxId,
        network::NetworkMode,
        record::{Observed, SandboxRecord},
    },
    network::service::Network,
};

/// Adopts pods. Clones share all state.
#[derive(Clone, Debug)]
pub struct Adopter {
    engine: Engine,
    network: Network,
    checkpoints: Checkpoints,
    /// Ids of pods that had a usable checkpoint file at the start.
    known: Arc<HashSet<SandboxId>>,
    pins: PinDirectories,
}

impl Adopter {
    /// Creates an adopter for pods that are not in `known`.
    pub fn new(
        engine: Engine,
        network: Network,
        checkpoints: Checkpoints,
        known: HashSet<SandboxId>,
        pins: PinDirectories,
    ) -> Self {
        Self { engine, network, checkpoints, known: Arc::new(known), pins }
    }

    /// Writes the missing checkpoint files of pods with a CNI network whose state it can find. Returns the content of
    /// these files, even if a write fails.
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
            warn!(sandbox = %pod.id, error = chain(&error), "cannot write the checkpoint file of an adopted pod; retrying");
        }
        let addresses = adopted.attachment.as_ref().map(Attachment::addresses).unwrap_or_default();
        info!(sandbox = %pod.id, name = pod.name, ?addresses, "adopted a pod without a checkpoint file");
        Some(adopted)
    }

    /// Inspects the pod. Returns the pod as listed if the inspect fails or takes long. `None` if this is not a pod:
    /// somebody can run a container by hand from an image with a pod's labels.
    pub async fn inspected(&self, listed: &SandboxRecord) -> Option<SandboxRecord> {
        let id = &listed.id;
        match timeout(INSPECT_TIMEOUT, self.engine.inspect_container(id.as_str())).await {
            Ok(Ok(Observed::Sandbox(pod))) => return Some(pod),
            Ok(Ok(Observed::Container(_) | Observed::Foreign(_))) => return None,
            Ok(Err(error)) => {
                warn!(sandbox = %id, error = chain(&error), "docker inspect of a pod to adopt failed; continuing with Docker's list");
            }
            Err(_) => {
                warn!(sandbox = %id, "docker inspect of a pod to adopt timed out; continuing with Docker's list");
            }
        }
        Some(listed.clone())
    }

    /// Finds the network state of a pod. Returns `None` if the pod has no CNI network, or if dockbridge must try again
    /// later, for example once the pid of the pause container is known.
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
            warn!(sandbox = %pod.id, error = chain(error), "cannot read the CNI cache for a pod without a checkpoint file; reading the pod's addresses from its namespace if the pod runs");
        }
        if pod.is_running() {
            // If the pid is unknown, dockbridge adopts the pod later, once it has inspected the pod.
            let found = self.network.attachment_from_namespace(network.clone(), pod.pid()?).await;
            if found.is_some() {
                return found;
            }
        }
        // The network state is unknown, so the pod is not ready. The stop still runs DEL, because plugins may have
        // resources for the pod's id.
        match cached.ok()? {
            Some(adding) => Some(adding),
            None => self.network.prepare(network).await.ok().map(Attachment::Adding),
        }
    }

    /// The attachment that DEL must release, for a pod with unknown network state. `None` without a CNI network.
    ///
    /// # Errors
    /// The cache is unreadable, or it has no entry for the pod and there is no usable network configuration.
    pub async fn find_cni(&self, pod: &SandboxRecord) -> Result<Option<CniAttachment>, Failure> {
        if pod.document.network != NetworkMode::Cni {
            return Ok(None);
        }
        let network = self.pod_network(pod).await;
        let cached = self.network.attachment_from_cache(network.clone()).await?;
        if let Some(cni) = cached.as_ref().and_then(Attachment::cni) {
            return Ok(Some(cni.clone()));
        }
        match self.network.prepare(network.clone()).await {
            // A pod with an invalid annotation was never connected. To remove it, DEL runs without the annotations.
            Err(refused) if refused.kind() == Kind::InvalidArgument => {
                let annotations = BTreeMap::new();
                Ok(Some(self.network.prepare(PodNetwork { annotations, ..network }).await?))
            }
            prepared => Ok(Some(prepared?)),
        }
    }

    async fn pod_network(&self, pod: &SandboxRecord) -> PodNetwork {
        let mut network = pod_network(&pod.id, &pod.document.spec, self.pins.path(pod.id.as_str()));
        if network.ports.is_empty() {
            network.ports = self.checkpoints.cri_dockerd_ports(&pod.id).await;
        }
        network
    }
}

/// How long the inspect of a pod to adopt may take. dockbridge lists no pod until all these inspects have ended.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(2);

//! The state and the services that the code for pods and the code for containers share.

use std::{path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::OwnedRwLockReadGuard, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    oci_runtime_files::OciRuntimeFiles, pod_files::PodFilesRoot, saved_changes::SavedChanges,
};
use crate::{
    concurrency::{blocking::blocking, keyed_locks::KeyedLocks, named::Named},
    config::live::LiveSettings,
    engine::client::Engine,
    error::{Failure, Kind, chain},
    host::{capability, cgroup::Cgroups, error::HostError},
    image_files::service::ImageFiles,
    logs::service::Logs,
    model::{
        engine::EngineInfo,
        id::{ContainerId, SandboxId},
        record::{ContainerRecord, ImageRecord},
        reference::{can_move, printable},
    },
    nri::service::Nri,
    store::{handle::Store, settings::SYNC_TIMEOUT, snapshot::Snapshot},
};

/// The services, locks and caches that the code for pods and the code for containers share.
#[derive(Debug)]
pub struct Node {
    pub engine: Engine,
    pub store: Store,
    pub logs: Logs,
    pub image_files: ImageFiles,
    pub live: LiveSettings,
    /// Finds the cgroups of containers, for limits and container checkpoints.
    pub cgroups: Cgroups,
    /// The locks of pods (by sandbox id) and containers (by id). Creating or starting a container read-locks its pod.
    /// Creating, stopping or removing a pod write-locks the pod. Starting, updating or removing a container write-locks
    /// the container. Creating a pod also locks the pod's name.
    pub locks: KeyedLocks,
    /// Cancellation tokens by the id of a pod or container. A stop or a removal cancels the token, to end work that
    /// could hold the lock for long.
    pub cancellations: Named<CancellationToken>,
    /// The files `hostname`, `hosts` and `resolv.conf` that dockbridge writes for pods.
    pub pod_files: PodFilesRoot,
    pub oci_runtime_files: OciRuntimeFiles,
    pub saved_changes: SavedChanges,
    /// The NRI plugins, which are notified of pods and containers and may change containers.
    pub nri: Nri,
    /// The engine's `info`, and the result of `oom_floor()` for it.
    pub oom_floor: Mutex<Option<(Arc<EngineInfo>, i64)>>,
}

impl Node {
    /// The record of the container with this id. Fails with kind `NotFound` if no container has this id.
    pub(super) async fn container(&self, id: &str) -> Result<Arc<ContainerRecord>, Failure> {
        let now = self.store.inspected(id).await?;
        now.container(id).map(Arc::clone).ok_or_else(|| unknown_container(id))
    }

    /// The record of the container with this id, if it exists. Before Docker has answered the inspect of the
    /// container, the record has only the data of the engine's list.
    pub(super) async fn find_container(
        &self,
        id: &str,
    ) -> Result<Option<Arc<ContainerRecord>>, Failure> {
        Ok(self.store.synced(SYNC_TIMEOUT).await?.container(id).map(Arc::clone))
    }

    /// Waits while a container checkpoint freezes this container. While the guard exists, no freeze of it begins.
    ///
    /// # Errors
    /// The wait takes longer than `limit` and longer than [`THAW_TIMEOUT`].
    pub(super) async fn thawed(
        &self,
        id: &ContainerId,
        limit: Duration,
    ) -> Result<OwnedRwLockReadGuard<()>, Failure> {
        let limit = limit.max(THAW_TIMEOUT);
        timeout(limit, self.engine.freezes().thawed(id.as_str())).await.map_err(|_| {
            let text = format!(
                "container {id} is in use by a container or pod checkpoint that did not end within {}s; try again",
                limit.as_secs()
            );
            Failure::new(Kind::DeadlineExceeded, text)
        })
    }

    /// The image with this name. Fails with kind `NotFound` if the image is not on this node.
    pub(super) async fn present_image(
        &self,
        snapshot: &Snapshot,
        name: &str,
    ) -> Result<Arc<ImageRecord>, Failure> {
        self.image(snapshot, name).await?.ok_or_else(|| {
            let name = printable(name);
            Failure::new(Kind::NotFound, format!("image {name} is not on this node: pull it first"))
        })
    }

    /// The image with this name, if it exists. Asks the engine about a tag, because the store might not know yet that
    /// the tag has moved. An id or a digest of an image that the store has inspected needs no call.
    pub(super) async fn image(
        &self,
        snapshot: &Snapshot,
        name: &str,
    ) -> Result<Option<Arc<ImageRecord>>, Failure> {
        let known = snapshot.image(name).filter(|image| image.inspected && !can_move(name));
        if let Some(image) = known {
            return Ok(Some(Arc::clone(image)));
        }
        self.store.refresh_image(name).await?;
        Ok(self.store.snapshot().image(name).map(Arc::clone))
    }

    /// The lowest `oom_score_adj` that dockbridge lets the engine set. dockbridge raises lower values to this value,
    /// because runc can fail on them if the engine has no CAP_SYS_RESOURCE. Read again after the engine's `info`
    /// has changed. 0 if the connection to the engine's socket takes too long.
    pub async fn oom_floor(&self) -> i64 {
        let engine = self.store.snapshot().engine.clone();
        let held = || self.oom_floor.lock();
        if let (Some(engine), Some((described, score))) = (&engine, &*held())
            && Arc::ptr_eq(engine, described)
        {
            return *score;
        }
        let socket = self.engine.socket().to_owned();
        let asking = blocking(move || capability::oom_floor(&socket));
        let Ok(score) = timeout(FLOOR_TIMEOUT, asking).await else { return 0 };
        *held() = engine.map(|engine| (engine, score));
        score
    }
}

pub(super) fn unknown_container(id: &str) -> Failure {
    Failure::missing(format_args!("container {id}"))
}

pub(super) fn not_running(id: &str) -> Failure {
    Failure::unmet(format!("container {id} is not running"))
}

/// The error if the pod's sandbox is not ready, for example because it has ended.
pub(super) fn sandbox_not_ready(id: &SandboxId) -> Failure {
    Failure::unmet(format!("sandbox {id} is not ready: start a new sandbox for this pod"))
}

/// The error if a path that the request names cannot be used.
pub(super) fn refused_file(action: &'static str, path: &Path, cause: std::io::Error) -> Failure {
    Failure::invalid(chain(&HostError::new(action, path, cause)))
}

/// How long [`capability::oom_floor`], which connects to the engine's socket, may take.
const FLOOR_TIMEOUT: Duration = Duration::from_secs(1);
/// A call waits up to this time for a frozen container, even if the call's own limit is shorter.
const THAW_TIMEOUT: Duration = Duration::from_secs(10);

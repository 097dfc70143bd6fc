//! State and services that pods and containers of this node share.

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

/// The parts of this node that pods and containers use.
#[derive(Debug)]
pub struct Node {
    pub engine: Engine,
    pub store: Store,
    pub logs: Logs,
    pub image_files: ImageFiles,
    pub live: LiveSettings,
    /// The cgroup files, which contain limits.
    pub cgroups: Cgroups,
    /// A pod (by sandbox id) is read-locked while a container is created in it, and write-locked while it
    /// changes. A container (by id) is write-locked while it changes. A pod being created is locked by name.
    pub locks: KeyedLocks,
    /// By sandbox id. Cancelled by a caller that waits for a pod's lock to stop the pod.
    pub cancellations: Named<CancellationToken>,
    /// The files of a pod that the engine does not create.
    pub pod_files: PodFilesRoot,
    /// The files that our OCI runtime reads.
    pub oci_runtime_files: OciRuntimeFiles,
    /// Changes to pods and containers after their creation.
    pub saved_changes: SavedChanges,
    /// NRI plugins, which receive pods and containers and may change them.
    pub nri: Nri,
    pub oom_floor: Mutex<Option<EngineFloor>>,
}

/// The lowest score that an engine may set.
#[derive(Debug)]
pub struct EngineFloor {
    engine: Arc<EngineInfo>,
    score: i64,
}

impl Node {
    /// The record of the container with this id. Fails with kind `NotFound` if there is none.
    pub(super) async fn container(&self, id: &str) -> Result<Arc<ContainerRecord>, Failure> {
        let now = self.store.inspected(id).await?;
        now.container(id).map(Arc::clone).ok_or_else(|| unknown_container(id))
    }

    /// The record of the container with this id, if it exists. Before its inspect it has only the data of
    /// the engine's list.
    pub(super) async fn find_container(
        &self,
        id: &str,
    ) -> Result<Option<Arc<ContainerRecord>>, Failure> {
        Ok(self.store.synced(SYNC_TIMEOUT).await?.container(id).map(Arc::clone))
    }

    /// The id of the container in the request, if it exists.
    pub(super) async fn find_id(&self, id: &str) -> Result<Option<ContainerId>, Failure> {
        Ok(self.find_container(id).await?.map(|record| record.id.clone()))
    }

    /// Waits until no checkpoint of a container is being made. While the guard exists, none begins.
    ///
    /// # Errors
    /// This takes longer than `limit`. CRIU is never interrupted, because its code runs in the container's processes.
    pub(super) async fn moving(
        &self,
        id: &ContainerId,
        limit: Duration,
    ) -> Result<OwnedRwLockReadGuard<()>, Failure> {
        let limit = limit.max(STANDSTILL_TIMEOUT);
        timeout(limit, self.engine.standstills().moving(id.as_str())).await.map_err(|_| {
            let text = format!(
                "container {id} is frozen for a checkpoint that has not ended after {}s; try again",
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

    /// The image with this name, if it exists. A tag may have moved without the store knowing yet, so the engine is
    /// asked, except for an id or a digest that the store has.
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

    /// The lowest `oom_score_adj` that the engine may set on this host. Lower values are raised to it,
    /// because nested and CI hosts lack CAP_SYS_RESOURCE and runc would fail. The value is read again after
    /// each new answer of the engine to `info`. An engine that accepts no connection counts as restricted.
    pub async fn oom_floor(&self) -> i64 {
        let engine = self.store.snapshot().engine.clone();
        let held = || self.oom_floor.lock();
        if let (Some(engine), Some(known)) = (&engine, &*held())
            && Arc::ptr_eq(engine, &known.engine)
        {
            return known.score;
        }
        let socket = self.engine.socket().to_owned();
        let asking = blocking(move || capability::oom_floor(&socket));
        let Ok(score) = timeout(FLOOR_TIMEOUT, asking).await else { return 0 };
        *held() = engine.map(|engine| EngineFloor { engine, score });
        score
    }
}

/// The failure if no container has this id.
pub(super) fn unknown_container(id: &str) -> Failure {
    Failure::missing(format_args!("container {id}"))
}

/// The failure if a container does not run.
pub(super) fn not_running(id: &str) -> Failure {
    Failure::unmet(format!("container {id} is not running"))
}

/// The failure if the pod's sandbox has ended.
pub(super) fn sandbox_not_ready(id: &SandboxId) -> Failure {
    Failure::unmet(format!("sandbox {id} is not ready: start a new sandbox for this pod"))
}

/// The failure on a file that the caller chose.
pub(super) fn refused_file(action: &'static str, path: &Path, cause: std::io::Error) -> Failure {
    Failure::invalid(chain(&HostError::new(action, path, cause)))
}

/// How long the engine's socket may take to accept the connection that identifies its process.
const FLOOR_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a call waits at least for the end of a checkpoint.
const STANDSTILL_TIMEOUT: Duration = Duration::from_secs(10);

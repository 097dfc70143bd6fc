//! What pods and containers of this node share.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::timeout;

use super::{
    error::ContainerError, oci_runtime_files::OciRuntimeFiles, pod_files::PodFilesRoot,
    saved_changes::SavedChanges,
};
use crate::{
    concurrency::{blocking::blocking, cancellations::Cancellations, keyed_locks::KeyedLocks},
    config::live::LiveSettings,
    engine::client::Engine,
    host::{capability, cgroup::Cgroups},
    image_files::service::ImageFiles,
    logs::service::Logs,
    model::{
        engine::EngineInfo,
        id::ContainerId,
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
    /// Where the kernel keeps limits.
    pub cgroups: Cgroups,
    /// Pods (by sandbox id) are read-locked while a container is created in them, and write-locked while they
    /// change, like containers (by id). Pods being created are locked by name.
    pub locks: KeyedLocks,
    /// By sandbox id: cancelled by a caller that waits for a pod's lock to stop it.
    pub cancellations: Cancellations,
    /// The files that the engine does not make for a pod.
    pub pod_files: PodFilesRoot,
    /// The files that our OCI runtime reads.
    pub oci_runtime_files: OciRuntimeFiles,
    /// What was changed of pods and containers since they were created.
    pub saved_changes: SavedChanges,
    /// NRI plugins, which see pods and containers and may change them.
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
    /// The record of a container the caller names.
    ///
    /// # Errors
    /// There is none, or the engine does not answer.
    pub(super) async fn container(&self, id: &str) -> Result<Arc<ContainerRecord>, ContainerError> {
        let missing = || ContainerError::NotFound { id: id.to_owned() };
        self.store.inspected(id).await?.container(id).map(Arc::clone).ok_or_else(missing)
    }

    /// The record of a container the caller names, if there is one; perhaps no more of it than the
    /// engine's list tells.
    pub(super) async fn find_container(
        &self,
        id: &str,
    ) -> Result<Option<Arc<ContainerRecord>>, ContainerError> {
        Ok(self.store.synced(SYNC_TIMEOUT).await?.container(id).map(Arc::clone))
    }

    /// The id of a container the caller names, if there is one.
    pub(super) async fn find_id(&self, id: &str) -> Result<Option<ContainerId>, ContainerError> {
        Ok(self.find_container(id).await?.map(|record| record.id.clone()))
    }

    /// The image by any of its names. A tag may have moved a moment ago, before the store knows, so
    /// the engine is asked. It is not asked for an id or a digest that the store has.
    pub(super) async fn image(
        &self,
        snapshot: &Snapshot,
        name: &str,
    ) -> Result<Arc<ImageRecord>, ContainerError> {
        let known = snapshot.image(name).filter(|image| image.inspected && !can_move(name));
        if let Some(image) = known {
            return Ok(Arc::clone(image));
        }
        let missing = || ContainerError::ImageNotFound { name: printable(name).into_owned() };
        self.store.refresh_image(name).await?;
        self.store.snapshot().image(name).map(Arc::clone).ok_or_else(missing)
    }

    /// The lowest `oom_score_adj` the engine may set on this host; lower values are clamped
    /// (nested and CI hosts lack CAP_SYS_RESOURCE, and runc fails). Read once for each engine that
    /// described itself; one that does not take connections counts as restricted.
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

/// How long the engine's socket may take to accept the connection that shows its process.
const FLOOR_TIMEOUT: Duration = Duration::from_secs(1);

//! The service: what CreateContainer, StartContainer and the others share.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::{sync::watch, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    error::ContainerError, metrics::ContainerMetrics, oci_runtime_files::OciRuntimeFiles,
    pod_files::PodFilesRoot, saved_changes::SavedChanges, start_once::UnseenStarts,
};
use crate::{
    concurrency::{
        blocking::blocking, cancellations::Cancellations, keyed_locks::KeyedLocks,
        single_flight::SingleFlight,
    },
    config::live::LiveSettings,
    engine::client::Engine,
    exec::command_records::CommandRecords,
    host::{capability::oom_floor, cgroup::Cgroups},
    image_files::service::ImageFiles,
    logs::service::Logs,
    model::{
        engine::EngineInfo,
        id::{ContainerId, SandboxId},
    },
    nri::service::Nri,
    store::handle::Store,
};

/// The containers of this node. Clones share everything.
#[derive(Clone, Debug)]
pub struct Containers {
    pub(super) engine: Engine,
    pub(super) store: Store,
    pub(super) logs: Logs,
    pub(super) image_files: ImageFiles,
    pub(super) live: LiveSettings,
    /// Pods (by sandbox id) are read-locked while a container is created in them, containers (by
    /// id) are write-locked while they change.
    pub(super) locks: KeyedLocks,
    /// By sandbox id: cancelled by a caller that waits for a pod's lock to stop it.
    pub(super) cancellations: Cancellations,
    pub(super) files: PodFilesRoot,
    pub(super) oci_runtime_files: OciRuntimeFiles,
    /// Plugins that are told of containers, and may change them.
    pub(super) nri: Nri,
    pub(super) creating: SingleFlight<String, Result<ContainerId, ContainerError>>,
    pub(super) starting: SingleFlight<ContainerId, Result<(), ContainerError>>,
    pub(super) unseen_starts: UnseenStarts,
    pub(super) stopping: SingleFlight<ContainerId, Result<(), ContainerError>>,
    pub(super) removing: SingleFlight<ContainerId, Result<(), ContainerError>>,
    /// Owns the commands run in containers, so that an exit of dockbridge waits for their end.
    pub(super) tracker: TaskTracker,
    /// Cancelled when dockbridge ends: then commands are ended.
    pub(super) leaving: CancellationToken,
    pub(super) updating: SingleFlight<(ContainerId, String), Result<(), ContainerError>>,
    /// Where the kernel keeps limits.
    pub(super) cgroups: Cgroups,
    /// What was changed of pods and containers since they were created.
    pub(super) saved_changes: SavedChanges,
    pub(super) reopening: SingleFlight<ContainerId, Result<(), ContainerError>>,
    /// When a stop under way turns into a kill, so that a later caller can make it sooner. An
    /// entry is dead when no caller waits for that stop any more.
    pub(super) deadlines: Arc<Mutex<HashMap<ContainerId, Weak<watch::Sender<Instant>>>>>,
    /// What [`Self::oom_floor`] found, and for which engine.
    floor: Arc<Mutex<Option<Floor>>>,
    /// Which commands run, for the server after this one.
    pub(super) command_records: CommandRecords,
    pub(super) metrics: ContainerMetrics,
}

/// The lowest score an engine may set.
#[derive(Clone, Debug)]
struct Floor {
    engine: Arc<EngineInfo>,
    score: i64,
}

/// The services that containers need.
#[derive(Clone, Debug)]
pub struct ContainerDependencies {
    pub engine: Engine,
    pub store: Store,
    pub logs: Logs,
    pub image_files: ImageFiles,
    pub live: LiveSettings,
    /// Finds the cgroups of containers.
    pub cgroups: Cgroups,
    /// What was changed of pods and containers since they were created.
    pub saved_changes: SavedChanges,
    /// What our OCI runtime is told.
    pub oci_runtime_files: OciRuntimeFiles,
    pub nri: Nri,
}

impl Containers {
    /// Metrics of commands.
    pub const fn metrics(&self) -> &ContainerMetrics {
        &self.metrics
    }

    /// Per-pod files go below `state_dir`. Tasks are owned by the tracker; what could last for ever
    /// ends soon after the token is cancelled.
    pub fn new(
        dependencies: ContainerDependencies,
        locks: KeyedLocks,
        state_dir: &Path,
        work: (&TaskTracker, &CancellationToken),
    ) -> Self {
        let ContainerDependencies {
            engine,
            store,
            logs,
            image_files,
            live,
            cgroups,
            saved_changes,
            oci_runtime_files,
            nri,
        } = dependencies;
        let (tracker, stopping) = work;
        Self {
            engine,
            store,
            logs,
            image_files,
            live,
            locks,
            cancellations: Cancellations::default(),
            files: PodFilesRoot::new(state_dir.join("pods")),
            creating: SingleFlight::new(tracker.clone()),
            starting: SingleFlight::new(tracker.clone()),
            stopping: SingleFlight::new(tracker.clone()),
            removing: SingleFlight::new(tracker.clone()),
            tracker: tracker.clone(),
            leaving: stopping.clone(),
            metrics: ContainerMetrics::default(),
            updating: SingleFlight::new(tracker.clone()),
            cgroups,
            saved_changes,
            oci_runtime_files,
            nri,
            unseen_starts: UnseenStarts::default(),
            reopening: SingleFlight::new(tracker.clone()),
            deadlines: Arc::default(),
            floor: Arc::default(),
            command_records: CommandRecords::open(state_dir.join("execs")),
        }
    }

    /// Where the files the engine does not make for a pod are kept.
    pub const fn files(&self) -> &PodFilesRoot {
        &self.files
    }

    /// Cuts short what would hold up the stop of a pod, once cancelled.
    pub fn cancellation(&self, pod: &SandboxId) -> Arc<CancellationToken> {
        self.cancellations.of(pod.as_str())
    }

    /// What was changed of pods and containers since they were created.
    pub const fn saved_changes(&self) -> &SavedChanges {
        &self.saved_changes
    }

    /// The lowest `oom_score_adj` the engine may set on this host; lower values are clamped
    /// (nested and CI hosts lack CAP_SYS_RESOURCE, and runc fails). Read once for each engine that
    /// described itself; one that does not take connections counts as restricted.
    pub async fn oom_floor(&self) -> i64 {
        let engine = self.store.snapshot().engine.clone();
        let known = self.floor.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let (Some(engine), Some(known)) = (&engine, known)
            && Arc::ptr_eq(engine, &known.engine)
        {
            return known.score;
        }
        let socket = self.engine.socket().to_owned();
        let asking = blocking(move || oom_floor(&socket));
        let Ok(score) = tokio::time::timeout(FLOOR_TIMEOUT, asking).await else { return 0 };
        let found = engine.map(|engine| Floor { engine, score });
        *self.floor.lock().unwrap_or_else(PoisonError::into_inner) = found;
        score
    }
}

/// How long the engine's socket may take to accept the connection that shows its process.
const FLOOR_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

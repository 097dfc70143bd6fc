//! Errors of container calls.

use std::{path::PathBuf, sync::Arc, time::Duration};

use thiserror::Error;

use super::limits::error::LimitError;
use crate::{
    cdi::error::CdiError,
    checkpoint::error::CheckpointError,
    concurrency::single_flight::Lost,
    engine::error::EngineError,
    error::{Kind, chain},
    exec::error::ExecError,
    host::error::HostError,
    image_files::error::ImageFilesError,
    logs::error::LogError,
    model::id::InvalidId,
    nri::error::NriError,
    store::error::StoreError,
    translate::plan::error::PlanError,
};

/// A container call failed. Cheap to clone, because several callers may wait for one task.
#[derive(Clone, Debug, Error)]
pub enum ContainerError {
    #[error("container {id} is not known")]
    NotFound { id: String },
    #[error("sandbox {id} is not known")]
    SandboxNotFound { id: String },
    #[error("sandbox {id} is not ready: start a new one for this pod")]
    SandboxNotReady { id: String },
    /// The create would have delayed the stop of its pod.
    #[error("the pod is being stopped; SELinux relabelling of {path} was cancelled")]
    PodStopping { path: PathBuf },
    #[error("container {id} is not running")]
    NotRunning { id: String },
    /// A container runs its command only once, so only a container that was never started can be started.
    #[error("container {id} is {state}; only a container that was never started can be started")]
    WasStarted { id: String, state: &'static str },
    /// A command timed out. All its processes were killed, except those in `left`.
    #[error(
        "command in container {id} timed out after {}s{}",
        limit.as_secs(),
        left.as_ref().map(|left| format!(" {left}")).unwrap_or_default()
    )]
    TimedOut {
        id: String,
        limit: Duration,
        /// Why some processes may be left.
        left: Option<Arc<str>>,
    },
    #[error(
        "command in container {id} was killed after {}s: it waited for memory for its output, \
         because other commands used all of it",
        limit.as_secs()
    )]
    NoMemory { id: String, limit: Duration },
    #[error("the caller of the command in container {id} has disconnected")]
    Abandoned { id: String },
    /// The engine took too long, not the command.
    #[error("{}", chain(cause))]
    EngineTimedOut { cause: Box<ContainerError> },
    #[error("the command in container {id} was killed: dockbridge is shutting down")]
    Stopping { id: String },
    #[error("target container {id} is not a running container of this pod")]
    TargetNotReady { id: String },
    #[error("image {name} is not on this node: pull it first")]
    ImageNotFound { name: String },
    #[error("cannot start a container from the checkpoint {image}: {reason}")]
    Restore { image: String, reason: String, kind: Kind },
    /// The name is in use by a container that must not be replaced.
    #[error("container name {name} is in use by {holder}")]
    NameInUse { name: String, holder: String },
    #[error("container {id} did not end within {}s of SIGKILL", time_limit.as_secs())]
    Unkillable { id: String, time_limit: Duration },
    #[error("cannot {action} {path}: {cause}")]
    File {
        action: &'static str,
        path: PathBuf,
        cause: Arc<std::io::Error>,
        /// Whether the caller named the file.
        kind: Kind,
    },
    #[error("cannot update the files of dockbridge-runtime for container {id}")]
    Edits { id: String, source: Arc<HostError> },
    #[error("docker answered with an invalid container id")]
    Id(#[from] InvalidId),
    /// An image cannot be mounted into a container. kubelet reads the prefix.
    #[error("ImageVolumeMountFailed: image {image:?} cannot be mounted at {target:?}: {cause}")]
    ImageVolume {
        image: String,
        target: String,
        #[source]
        cause: Arc<ImageFilesError>,
    },
    /// Setting a limit failed that dockbridge sets, not the engine.
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error("cannot change the limits of container {id}: {}{}", chain(cause), already_set(set))]
    NotResized {
        id: String,
        cause: Box<ContainerError>,
        /// What was set before, in Docker's names or as fields of the request.
        set: Vec<String>,
    },
    #[error(transparent)]
    Plan(Arc<PlanError>),
    #[error(transparent)]
    Cdi(#[from] CdiError),
    #[error(transparent)]
    Log(#[from] Arc<LogError>),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("cannot inspect the content of the image")]
    ImageFiles(#[from] ImageFilesError),
    /// A command could not be started, followed or ended.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// The changes of CDI devices or NRI plugins for a container were lost.
    #[error(
        "the changes of {of} for container {id} are lost or in the format of an earlier dockbridge, so it cannot \
         start: remove it, and kubelet creates another"
    )]
    EditsLost { of: &'static str, id: String },
    #[error("cannot save the NRI adjustment of the container")]
    AdjustmentNotSaved {
        #[source]
        cause: Arc<CheckpointError>,
    },
    /// An NRI plugin refused, or could not be asked.
    #[error(transparent)]
    Nri(#[from] NriError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Lost(#[from] Lost),
}

impl ContainerError {
    /// The error kind, from which the gRPC code follows.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotFound { .. } | Self::SandboxNotFound { .. } | Self::ImageNotFound { .. } => {
                Kind::NotFound
            }
            Self::SandboxNotReady { .. }
            | Self::PodStopping { .. }
            | Self::TargetNotReady { .. }
            | Self::EditsLost { .. }
            | Self::WasStarted { .. }
            | Self::NotRunning { .. } => Kind::FailedPrecondition,
            Self::NameInUse { .. } => Kind::AlreadyExists,
            Self::Unkillable { .. } | Self::TimedOut { .. } => Kind::DeadlineExceeded,
            Self::Abandoned { .. } => Kind::Cancelled,
            Self::EngineTimedOut { .. } | Self::Stopping { .. } | Self::NoMemory { .. } => {
                Kind::Unavailable
            }
            Self::AdjustmentNotSaved { cause } => cause.kind(),
            Self::Limit(error) => error.kind(),
            Self::NotResized { cause, .. } => cause.kind(),
            Self::Exec(error) => error.kind(),
            Self::File { kind, .. } | Self::Restore { kind, .. } => *kind,
            Self::Edits { source, .. } => source.kind(),
            Self::ImageVolume { cause, .. } => cause.kind(),
            Self::Plan(error) => error.kind(),
            Self::Cdi(error) => error.kind(),
            Self::Log(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::ImageFiles(error) => error.kind(),
            Self::Nri(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Id(_) | Self::Lost(_) => Kind::Internal,
        }
    }

    /// Wraps a failure on a file.
    pub fn file(action: &'static str, path: impl Into<PathBuf>, cause: std::io::Error) -> Self {
        Self::File { action, path: path.into(), cause: Arc::new(cause), kind: Kind::Internal }
    }
}

impl From<PlanError> for ContainerError {
    fn from(error: PlanError) -> Self {
        Self::Plan(Arc::new(error))
    }
}

fn already_set(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    format!("; already set: {}", names.join(", "))
}

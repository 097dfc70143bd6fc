//! Errors of pod calls.

use std::sync::Arc;

use thiserror::Error;

use crate::{
    checkpoint::error::CheckpointError,
    concurrency::single_flight::Lost,
    container::error::ContainerError,
    engine::error::EngineError,
    error::{Kind, chain},
    host::error::HostError,
    image::error::ImageError,
    model::{engine::OtherStore, id::SandboxId, sandbox::PodMetadata},
    network::error::NetworkError,
    store::error::StoreError,
    translate::plan::error::PlanError,
};

/// A pod call failed. Cheap to clone, because several callers may wait for one task.
#[derive(Clone, Debug, Error)]
pub enum SandboxError {
    /// A ready sandbox of this identity has another configuration.
    #[error(
        "pod {}/{} attempt {} already has sandbox {holder} with another configuration: stop and \
         remove that one, or use another attempt",
        pod.namespace, pod.name, pod.attempt
    )]
    AlreadyExists { pod: PodMetadata, holder: String },
    #[error("sandbox {id} is not known")]
    NotFound { id: String },
    #[error("the processes of sandbox {id} may still run. {other}: {}", other.way_back())]
    Hidden { id: SandboxId, other: OtherStore },
    #[error("the sandbox process of {id} ended while it was being set up")]
    Ended { id: String },
    #[error("cannot pin or release the network namespace of sandbox {id}")]
    Pin { id: String, source: Arc<HostError> },
    #[error("cannot prepare or release the user namespace of sandbox {id}")]
    UserNamespace { id: String, source: Arc<HostError> },
    /// The pause container is in another network namespace than the one created for it.
    #[error(
        "the pause container of sandbox {id} did not join its network namespace: the engine's runtime \
         \"dockbridge\" is not dockbridge-runtime, or is outdated; run `dockbridge setup`"
    )]
    OtherNamespace { id: String },
    #[error("{}", joined(causes))]
    Several { causes: Vec<SandboxError> },
    #[error("{} (and cleanup failed: {})", chain(cause), .leftovers.join("; "))]
    NotCleanedUp {
        cause: Box<SandboxError>,
        /// What could not be released.
        leftovers: Vec<String>,
    },
    #[error(transparent)]
    Container(#[from] ContainerError),
    #[error("cannot prepare the sandbox image")]
    Image(#[from] ImageError),
    #[error(transparent)]
    Network(Arc<NetworkError>),
    #[error(transparent)]
    Checkpoint(Arc<CheckpointError>),
    /// The request cannot be fulfilled by Docker.
    #[error(transparent)]
    Plan(Arc<PlanError>),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Lost(#[from] Lost),
}

impl SandboxError {
    /// The kind, which decides the gRPC code.
    pub fn kind(&self) -> Kind {
        match self {
            Self::AlreadyExists { .. } => Kind::AlreadyExists,
            Self::NotFound { .. } => Kind::NotFound,
            Self::Ended { .. } | Self::OtherNamespace { .. } | Self::Hidden { .. } => {
                Kind::FailedPrecondition
            }
            Self::Pin { source, .. } | Self::UserNamespace { source, .. } => source.kind(),
            Self::Lost(_) => Kind::Internal,
            Self::Several { causes } => causes.first().map_or(Kind::Internal, Self::kind),
            Self::NotCleanedUp { cause, .. } => cause.kind(),
            Self::Container(error) => error.kind(),
            Self::Image(error) => error.kind(),
            Self::Network(error) => error.kind(),
            Self::Checkpoint(error) => error.kind(),
            Self::Plan(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    /// Makes one error of the failures of independent steps.
    ///
    /// # Errors
    /// The causes, if there are any.
    pub fn gather(mut causes: Vec<Self>) -> Result<(), Self> {
        match causes.len() {
            0 => Ok(()),
            1 => causes.pop().map_or(Ok(()), Err),
            _ => Err(Self::Several { causes }),
        }
    }
}

impl From<NetworkError> for SandboxError {
    fn from(error: NetworkError) -> Self {
        Self::Network(Arc::new(error))
    }
}

impl From<CheckpointError> for SandboxError {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(Arc::new(error))
    }
}

impl From<PlanError> for SandboxError {
    fn from(error: PlanError) -> Self {
        Self::Plan(Arc::new(error))
    }
}

fn joined(causes: &[SandboxError]) -> String {
    causes.iter().map(|cause| chain(cause)).collect::<Vec<_>>().join("; ")
}

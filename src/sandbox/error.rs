//! What can go wrong with a pod verb.

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
    model::sandbox::PodMetadata,
    network::error::NetworkError,
    store::error::StoreError,
    translate::plan::error::PlanError,
};

/// A pod verb failed. Cheap to clone: several callers may wait for one task.
#[derive(Clone, Debug, Error)]
pub enum SandboxError {
    /// The identity belongs to a live sandbox that was asked for differently.
    #[error(
        "pod {}/{} attempt {} already has sandbox {holder} with another configuration: stop and \
         remove that one, or ask with another attempt",
        pod.namespace, pod.name, pod.attempt
    )]
    AlreadyExists {
        /// The identity asked for.
        pod: PodMetadata,
        /// Who has it.
        holder: String,
    },
    /// No such sandbox.
    #[error("sandbox {id} is not known")]
    NotFound {
        /// As the caller named it.
        id: String,
    },
    /// The pause ended before its network could be connected.
    #[error("the sandbox process of {id} ended while it was being set up")]
    Ended {
        /// Docker id.
        id: String,
    },
    /// The namespace could not be kept, or not be let go.
    #[error("network namespace of sandbox {id}")]
    Pin {
        /// Docker id.
        id: String,
        /// What the kernel refused.
        source: Arc<HostError>,
    },
    /// Several parts of a verb failed.
    #[error("{}", told(causes))]
    Several {
        /// Each cause; never empty.
        causes: Vec<SandboxError>,
    },
    /// A verb failed, and so did parts of cleaning up after it.
    #[error("{} (cleaning up: {})", chain(cause), .leftovers.join("; "))]
    NotCleanedUp {
        /// Why the verb failed.
        cause: Box<SandboxError>,
        /// What could not be released.
        leftovers: Vec<String>,
    },
    /// A container of the pod.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The pause image.
    #[error("sandbox image")]
    Image(#[from] ImageError),
    /// Connecting or disconnecting.
    #[error(transparent)]
    Network(Arc<NetworkError>),
    /// Remembering.
    #[error(transparent)]
    Checkpoint(Arc<CheckpointError>),
    /// The request cannot be put into the engine's words.
    #[error(transparent)]
    Plan(Arc<PlanError>),
    /// The engine refused or did not answer.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What is true now is not known.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The task doing it died.
    #[error(transparent)]
    Lost(#[from] Lost),
}

impl SandboxError {
    /// What the caller can do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::AlreadyExists { .. } => Kind::AlreadyExists,
            Self::NotFound { .. } => Kind::NotFound,
            Self::Ended { .. } => Kind::FailedPrecondition,
            Self::Pin { source, .. } => source.kind(),
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

    /// One error out of the failures of independent steps.
    ///
    /// # Errors
    /// The causes, unless there are none.
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

fn told(causes: &[SandboxError]) -> String {
    causes.iter().map(|cause| chain(cause)).collect::<Vec<_>>().join("; ")
}

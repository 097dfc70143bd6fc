//! Errors of requests to the engine, with messages for operators.

use std::{error::Error, fmt, path::PathBuf, sync::Arc, time::Duration};

use crate::{
    error::{Kind, WithKind},
    model::engine::{ApiVersion, InvalidApiVersion},
};

/// The name of a request to the engine in errors, logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub verb: &'static str,
    pub subject: Subject,
}

/// The object of a [`Call`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Engine,
    Container(String),
    /// The id or the reference of an image.
    Image(String),
    /// The engine's id of an exec.
    Exec(String),
    /// A path inside a container, as `docker cp` writes it: `container:path`.
    Path(String),
}

impl Subject {
    pub(super) fn container(id: &str) -> Self {
        Self::Container(id.to_owned())
    }

    pub(super) fn exec(id: &str) -> Self {
        Self::Exec(id.to_owned())
    }
}

impl Call {
    /// The verb of a call that creates a container. The subject of this call is the container's name, not an id.
    pub(super) const CREATE: &str = "create";
    pub(super) const INSPECT: &str = "inspect";
    pub(super) const START: &str = "start";

    pub(super) fn garbled(&self, reason: impl Into<String>) -> EngineError {
        EngineError::Garbled { call: self.clone(), reason: reason.into() }
    }

    pub(super) fn late(&self, after: Duration) -> EngineError {
        EngineError::Deadline { call: self.clone(), after }
    }

    /// The error for a connection that broke after it was made, or that carried invalid HTTP.
    pub(super) fn broken(&self, error: impl Into<Box<dyn Error + Send + Sync>>) -> EngineError {
        let source: Arc<dyn Error + Send + Sync> = error.into().into();
        match cause_of::<hyper::Error>(&*source) {
            Some(cause) if cause.is_parse() => self.garbled(format!("invalid HTTP: {cause}")),
            _ => EngineError::Broken { call: self.clone(), source },
        }
    }
}

/// Searches `error` and its causes for the first error of type `T`.
pub(super) fn cause_of<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    std::iter::successors(Some(error), |error| (*error).source())
        .find_map(|e| e.downcast_ref::<T>())
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::Engine => f.write_str(self.verb),
            Subject::Container(name) => write!(f, "{} container {name}", self.verb),
            Subject::Image(name) => write!(f, "{} image {name}", self.verb),
            Subject::Exec(id) => write!(f, "{} exec {id}", self.verb),
            Subject::Path(place) => write!(f, "{} {}", self.verb, place.escape_default()),
        }
    }
}

/// Why a request to the engine failed. Cheap to clone, because several callers may share one failure.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    #[error("cannot reach the docker engine at {}: {advice} ({reason})", socket.display())]
    Unreachable { socket: PathBuf, reason: String, advice: &'static str },
    #[error("{call}: the connection to the docker engine broke before the answer was complete")]
    Broken { call: Call, source: Arc<dyn Error + Send + Sync> },
    #[error("{call}: no answer from the docker engine within {after:?}")]
    Deadline { call: Call, after: Duration },
    #[error("{call}: unexpected answer from the docker engine: {reason}")]
    Garbled { call: Call, reason: String },
    #[error("{call}: the answer is larger than {limit} bytes")]
    TooLarge { call: Call, limit: usize },
    #[error(
        "no common API version with the docker engine: {reason} (dockbridge speaks {} to {})",
        ApiVersion::OLDEST,
        ApiVersion::NEWEST
    )]
    Incompatible { reason: String },
    /// The server on the engine's socket answered a ping without a readable API version.
    #[error("the server at {} is not a docker engine", socket.display())]
    NoEngine { socket: PathBuf, source: InvalidApiVersion },
    /// The object `subject` does not exist. For a create, `subject` is the image or a container to join.
    #[error("{message}")]
    NotFound { subject: Subject, message: String },
    #[error("container name {name} is already taken")]
    NameTaken { name: String },
    #[error("{call}: {message}")]
    Conflict { call: Call, message: String },
    #[error("{call}: {message}")]
    Rejected { call: Call, message: String },
    /// The engine, or an authorization plugin of the engine, does not allow the call.
    #[error("{call}: not allowed: {message}")]
    Denied { call: Call, message: String },
    #[error("{message}")]
    CannotRun {
        container: String,
        /// The OCI runtime's message, without the prefixes of Docker, containerd, the shim and runc.
        message: String,
    },
    /// containerd still has a task with the container's id, for example because containerd or dockerd was killed
    /// during an earlier start. Starts of this container fail while containerd has the task of the earlier start.
    #[error(
        "a start of container {container} was interrupted and left a task in containerd; the container \
         must be removed and created again: {message}"
    )]
    LeftTask { container: String, message: String },
    /// The engine cannot reach its containerd, which the engine or systemd will restart.
    #[error("{call}: the docker engine cannot reach containerd: {message}")]
    NoContainerd { call: Call, message: String },
    #[error("{call}: {message}")]
    Failed { call: Call, status: u16, message: String },
    /// The engine could not pull the image, usually because of the registry or the connection to it.
    #[error("{}{message}", fault.prefix())]
    Pull { reference: String, fault: PullFault, message: String },
}

/// Why a pull failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PullFault {
    /// The registry answered 502, 503 or 504.
    RegistryUnavailable,
    /// The image's signature is missing or wrong, and the engine requires one.
    SignatureRefused,
    Other,
}

impl PullFault {
    /// The prefix of the error message. kubelet parses it to find out why a pull failed.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::RegistryUnavailable => "RegistryUnavailable: ",
            Self::SignatureRefused => "SignatureValidationFailed: ",
            Self::Other => "",
        }
    }
}

impl WithKind for EngineError {
    fn kind(&self) -> Kind {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } | Self::NoContainerd { .. } => {
                Kind::Unavailable
            }
            Self::Deadline { .. } => Kind::DeadlineExceeded,
            Self::Garbled { .. } | Self::TooLarge { .. } => Kind::Internal,
            Self::Incompatible { .. }
            | Self::NoEngine { .. }
            | Self::Conflict { .. }
            | Self::LeftTask { .. } => Kind::FailedPrecondition,
            Self::NotFound { .. } => Kind::NotFound,
            Self::NameTaken { .. } => Kind::AlreadyExists,
            Self::Rejected { .. } => Kind::InvalidArgument,
            Self::Denied { .. } => Kind::PermissionDenied,
            // kubelet shows the text of an error with the kind `Unknown` unchanged in the pod's events.
            Self::CannotRun { .. } | Self::Pull { .. } => Kind::Unknown,
            Self::Failed { status, .. } => match status {
                429 => Kind::ResourceExhausted,
                501 => Kind::Unimplemented,
                502..=504 => Kind::Unavailable,
                _ => Kind::Unknown,
            },
        }
    }
}

impl EngineError {
    /// Whether the engine's containerd store changed during a read, so that a retry may help. The engine has no status
    /// code for such a change. If another error has the same text, the retry only repeats a failed call.
    pub(super) fn asks_to_retry(&self) -> bool {
        let changed = "data changed during operation, retry";
        matches!(self, Self::Failed { message, .. } if message.ends_with(changed))
    }

    /// Whether the engine may have executed the request although no readable answer arrived.
    pub fn leaves_outcome_open(&self) -> bool {
        matches!(
            self,
            Self::Broken { .. }
                | Self::Deadline { .. }
                | Self::Garbled { .. }
                | Self::TooLarge { .. }
        )
    }

    /// Whether this error says that an object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether the state of the object or of another object forbids the call.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// Whether the engine may have been replaced since its version was negotiated.
    pub(super) fn invalidates_version(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Broken { .. }
                | Self::Garbled { .. }
                | Self::Incompatible { .. }
        )
    }
}

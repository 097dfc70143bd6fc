//! Why a CDI device cannot be added to a container.

use std::{path::PathBuf, sync::Arc};

use thiserror::Error;

use crate::{error::Kind, host::error::HostError};

/// A CDI device cannot be added. Cheap to clone.
#[derive(Clone, Debug, Error)]
pub enum CdiError {
    #[error("CDI device {device:?} is in no specification of {directories}{errors}")]
    Unknown {
        device: String,
        directories: String,
        /// The files that could not be read, with a semicolon in front.
        errors: String,
    },
    #[error(
        "CDI device {device:?} is defined twice: in {} and in {}", first.display(), second.display()
    )]
    Duplicate { device: String, first: PathBuf, second: PathBuf },
    #[error("CDI device {device:?} of {}: {problem}", file.display())]
    Unusable { device: String, file: PathBuf, problem: Arc<EditError> },
}

/// Why an edit of a device cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EditError {
    /// Only an engine that supports CDI itself can do this.
    #[error(
        "the Engine API cannot express its {what}: register the OCI runtime that can apply them \
         (`dockbridge setup`, Docker 24 or newer), or let Docker read CDI itself (Docker 25 or newer with \
         \"features\": {{\"cdi\": true}})"
    )]
    Engine { what: String },
    #[error("the OCI runtime has no hook {name:?}")]
    Hook { name: String },
    #[error("environment variable {text:?} is not NAME=value")]
    Variable { text: String },
    #[error("{path:?} is not an absolute path")]
    Relative { path: String },
    /// A file of this host cannot be examined.
    #[error("{reason}")]
    Host { reason: String },
    /// The engine can only copy device nodes that exist at `path` on the host.
    #[error("{} is not a device", path.display())]
    NoDevice { path: PathBuf },
    /// The engine copies the node at `path` on the host, which differs from the specification.
    #[error(
        "{} is specified with {property} {requested}, but the host's node, which the engine copies, has {found}",
        path.display()
    )]
    Differs { path: PathBuf, property: &'static str, requested: String, found: String },
    /// `path` is in the container.
    #[error("permissions {permissions:?} of {path:?} may contain only r, w and m")]
    Permissions { path: String, permissions: String },
}

impl CdiError {
    /// Never worth a retry at once: first something on the host has to change.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Unknown { .. } | Self::Duplicate { .. } | Self::Unusable { .. } => {
                Kind::FailedPrecondition
            }
        }
    }
}

impl From<HostError> for EditError {
    fn from(error: HostError) -> Self {
        Self::Host { reason: crate::error::chain(&error) }
    }
}

//! Why a CDI device cannot be given to a container.

use std::{path::PathBuf, sync::Arc};

use thiserror::Error;

use crate::{error::Kind, host::error::HostError};

/// A device that a container cannot have. Cheap to clone.
#[derive(Clone, Debug, Error)]
pub enum CdiError {
    /// No specification has it.
    #[error("CDI device {device:?} is in no specification of {directories}{broken}")]
    Unknown {
        /// The device.
        device: String,
        /// Where was looked, comma separated.
        directories: String,
        /// What could not be read there, with a semicolon in front.
        broken: String,
    },
    /// Two files of one directory have it, and none is better than the other.
    #[error(
        "CDI device {device:?} is defined twice: in {} and in {}", first.display(), second.display()
    )]
    Twice {
        /// The device.
        device: String,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// It has something that cannot be done.
    #[error("CDI device {device:?} of {}: {obstacle}", file.display())]
    Unusable {
        /// The device.
        device: String,
        /// Its specification.
        file: PathBuf,
        /// What cannot be done.
        obstacle: Arc<Obstacle>,
    },
    /// The task that read the files died.
    #[error("CDI specifications could not be read: {0}")]
    Lost(Arc<str>),
}

/// What of a device cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Obstacle {
    /// Something that only an engine with CDI can do.
    #[error(
        "the engine cannot be told of its {what}: only an engine that reads CDI itself can do that \
         (Docker 25 or newer with \"features\": {{\"cdi\": true}})"
    )]
    Engine {
        /// In the specification's words.
        what: &'static str,
    },
    /// A variable without a name or value.
    #[error("{text:?} is no NAME=value")]
    Variable {
        /// As the file has it.
        text: String,
    },
    /// A path that is not absolute.
    #[error("{path:?} is no absolute path")]
    Relative {
        /// As the file has it.
        path: String,
    },
    /// Something of this host cannot be looked at.
    #[error("{reason}")]
    Absent {
        /// Which, and why not.
        reason: String,
    },
    /// The engine copies nodes of the host.
    #[error("{} is no device", path.display())]
    NoDevice {
        /// On the host.
        path: PathBuf,
    },
    /// The engine would make the node like the host's.
    #[error(
        "it wants {} with {property} {wanted}, but the host's has {found}, and the engine copies it",
        path.display()
    )]
    Differs {
        /// On the host.
        path: PathBuf,
        /// Which property.
        property: &'static str,
        /// What the file says.
        wanted: String,
        /// What the host has.
        found: String,
    },
    /// No access the kernel knows.
    #[error("permissions {permissions:?} of {path:?} may hold only r, w and m")]
    Permissions {
        /// In the container.
        path: String,
        /// As the file has it.
        permissions: String,
    },
    /// Only binds come from the host.
    #[error("the mount at {target:?} is of type {kind:?}: only bind is possible")]
    MountType {
        /// In the container.
        target: String,
        /// As the file has it.
        kind: String,
    },
    /// No word for it in the Engine API.
    #[error("the engine cannot be told of option {option:?} of the mount at {target:?}")]
    MountOption {
        /// In the container.
        target: String,
        /// As the file has it.
        option: String,
    },
}

impl CdiError {
    /// The host has to change before asking again helps.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Unknown { .. } | Self::Twice { .. } | Self::Unusable { .. } => {
                Kind::FailedPrecondition
            }
            Self::Lost(_) => Kind::Internal,
        }
    }
}

impl From<tokio::task::JoinError> for CdiError {
    fn from(lost: tokio::task::JoinError) -> Self {
        Self::Lost(lost.to_string().into())
    }
}

impl From<HostError> for Obstacle {
    fn from(error: HostError) -> Self {
        Self::Absent { reason: crate::error::chain(&error) }
    }
}

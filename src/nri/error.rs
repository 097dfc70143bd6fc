//! Why a pod or container cannot be as plugins want it.

use thiserror::Error;

use crate::{error::Kind, translate::parse::error::ParseError};

/// A plugin stands in the way. Cheap to clone: several callers may wait for one task.
#[derive(Clone, Debug, Error)]
pub enum NriError {
    /// A plugin answered with an error.
    #[error("the NRI plugin {plugin} refused {call}: {message}")]
    Refused {
        /// Index and name.
        plugin: String,
        /// The event.
        call: &'static str,
        /// Its words.
        message: String,
    },
    /// Plugins that the administrator requires are not there.
    #[error("required NRI plugins are not connected: {missing}")]
    Missing {
        /// Their names.
        missing: String,
    },
    /// What a plugin asked for cannot be done.
    #[error("the NRI plugin {plugin} asked for what cannot be done: {reason}")]
    Unsupported {
        /// Index and name.
        plugin: String,
        /// The field and why.
        reason: String,
    },
    /// Limits that a plugin asked for.
    #[error("limits that the NRI plugin {plugin} asked for")]
    Limits {
        /// Index and name.
        plugin: String,
        /// Which, and why not.
        #[source]
        cause: std::sync::Arc<ParseError>,
    },
}

impl NriError {
    /// What sort of failure it is.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Refused { .. } => Kind::Unknown,
            Self::Missing { .. } => Kind::Unavailable,
            Self::Unsupported { .. } => Kind::Unimplemented,
            Self::Limits { .. } => Kind::InvalidArgument,
        }
    }
}

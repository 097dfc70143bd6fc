//! Why a pod could not be connected or disconnected.

use std::path::PathBuf;

use thiserror::Error;

use super::{
    arguments::ArgumentError,
    cni::{config::ConfigError, plugin_error::PluginError, result::ResultError},
};
use crate::{
    error::{Kind, WithKind},
    host::error::HostError,
};

/// A failure of the network.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// This node has no usable network configuration (yet).
    #[error("pods cannot be connected: {reason}")]
    NotConfigured {
        /// The directory that was searched, and why each of its files was refused.
        reason: String,
    },
    /// The pod cannot be described to plugins.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error("cannot parse the recorded configuration of network {network}")]
    Recorded {
        network: String,
        #[source]
        source: ConfigError,
    },
    /// The namespace of the pod is missing, or is not a private network namespace.
    #[error("{} is not the pod's network namespace: {reason}", path.display())]
    Namespace { path: PathBuf, reason: &'static str },
    /// Plugins that failed, in the order of the calls; never empty.
    #[error("{}", joined(.0))]
    Plugins(Vec<PluginError>),
    /// The plugins' result has no address for the pod.
    #[error("the result of the plugins of network {network} cannot be used")]
    Result {
        network: String,
        #[source]
        source: ResultError,
    },
    /// The kernel or the disk returned an error.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl WithKind for NetworkError {
    fn kind(&self) -> Kind {
        match self {
            Self::NotConfigured { .. } => Kind::Unavailable,
            Self::Argument(_) => Kind::InvalidArgument,
            Self::Namespace { .. } => Kind::FailedPrecondition,
            Self::Recorded { .. } => Kind::Internal,
            Self::Plugins(failures) => failures.first().map_or(Kind::Unknown, PluginError::kind),
            Self::Result { .. } => Kind::Unknown,
            Self::Host(error) => error.kind(),
        }
    }
}

impl NetworkError {
    /// Makes one error of the failures of a chain.
    ///
    /// # Errors
    /// The failures, if there are any.
    pub(super) fn from_failures(failures: Vec<PluginError>) -> Result<(), Self> {
        if failures.is_empty() { Ok(()) } else { Err(Self::Plugins(failures)) }
    }
}

fn joined(failures: &[PluginError]) -> String {
    let texts: Vec<String> = failures.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

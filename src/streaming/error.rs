//! Why a stream cannot begin.

use std::{io, net::SocketAddr};

use thiserror::Error;

use super::token::MOST_PENDING;
use crate::{error::Kind, store::error::StoreError};

/// Why kubelet gets no URL for an exec, attach or port-forward.
#[derive(Clone, Debug, Error)]
pub enum StreamError {
    #[error("container {id} is not known")]
    ContainerNotFound { id: String },
    #[error("container {id} is not running")]
    ContainerNotRunning { id: String },
    #[error("sandbox {id} is not known")]
    SandboxNotFound { id: String },
    #[error("sandbox {id} is not ready")]
    SandboxNotReady { id: String },
    /// The token was not used in time.
    #[error("{MOST_PENDING} streams were requested and not opened; wait a minute and try again")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StreamError {
    /// The error kind, from which the gRPC code follows.
    pub fn kind(&self) -> Kind {
        match self {
            Self::ContainerNotFound { .. } | Self::SandboxNotFound { .. } => Kind::NotFound,
            Self::ContainerNotRunning { .. } | Self::SandboxNotReady { .. } => {
                Kind::FailedPrecondition
            }
            Self::TooMany => Kind::ResourceExhausted,
            Self::Store(error) => error.kind(),
        }
    }
}

/// dockbridge cannot listen on the address.
#[derive(Debug, Error)]
#[error("cannot serve exec, attach and port-forward on {address}: choose another --streaming-addr")]
pub struct BindError {
    pub address: SocketAddr,
    pub source: io::Error,
}

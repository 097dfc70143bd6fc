//! Why dockbridge cannot serve streams.

use std::{io, net::SocketAddr};

use thiserror::Error;

/// dockbridge cannot listen on the address of its streaming server.
#[derive(Debug, Error)]
#[error("cannot serve exec, attach and port-forward on {address}: choose another --streaming-addr")]
pub struct BindError {
    pub address: SocketAddr,
    pub source: io::Error,
}

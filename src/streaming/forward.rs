//! Port-forward: connections of a client to ports inside a sandbox.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    channel::{Reader, Writer},
    spdy::connection::Connection,
};
use crate::model::record::SandboxRecord;

/// A forwarded connection of a WebSocket client.
#[derive(Debug)]
pub struct Pair {
    /// Where in the sandbox it leads.
    pub port: u16,
    /// What is forwarded.
    pub data: (Reader, Writer),
    /// Where a failure is told.
    pub error: Writer,
}

/// Forwards what a client opens on a SPDY connection, until it leaves.
pub async fn over_spdy(mut connection: Connection, _sandbox: &Arc<SandboxRecord>) {
    while connection.accept().await.is_some() {}
}

/// Forwards the connections of a WebSocket client, until all have ended.
pub async fn over_channels(pairs: Vec<Pair>, _sandbox: &Arc<SandboxRecord>) {
    for mut pair in pairs {
        let _ = pair.error.send(Bytes::from_static(b"port-forward is not built yet")).await;
    }
}

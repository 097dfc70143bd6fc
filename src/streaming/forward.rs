//! Port-forward: connects a client with ports in a sandbox.
//!
//! This needs no process in the pod. A short-lived thread connects a socket inside the pod's network
//! namespace. After that it is used like any other socket.

mod dial;
pub(super) mod pairing;
mod relay;

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, task::JoinSet, time::timeout};
use tracing::{debug, info};

use self::{
    dial::PodNetwork,
    pairing::{AcceptedStream, FirstStream, PairStream, Pairing, StreamType},
};
use super::{
    channel::{Reader, Writer},
    spdy::{
        connection::Connection,
        stream::{OfferedStream, Receiver, Sender},
    },
};
use crate::{error::chain, model::record::SandboxRecord};

/// A connection to forward.
#[derive(Debug)]
pub struct StreamPair {
    /// In the sandbox; not 0.
    pub port: u16,
    pub data: (Reader, Writer),
    /// Where failures are sent.
    pub error: Writer,
}

/// Forwards the connections that a client opens over SPDY until it leaves. Its open connections in the pod
/// are then closed, after the data that it had sent.
pub async fn over_spdy(connection: Connection, sandbox: &Arc<SandboxRecord>) {
    pair_up(connection, sandbox, CREATION_TIMEOUT).await;
}

/// Forwards the connections of a WebSocket client until all have ended.
pub async fn over_channels(pairs: Vec<StreamPair>, sandbox: &Arc<SandboxRecord>) {
    let mut running = JoinSet::new();
    let turn = Arc::default();
    for pair in pairs {
        running.spawn(forward(pair, Arc::clone(sandbox), Arc::clone(&turn)));
    }
    while running.join_next().await.is_some() {}
}

async fn pair_up(mut connection: Connection, sandbox: &Arc<SandboxRecord>, time_limit: Duration) {
    let mut pairing = Pairing::new();
    let mut running = JoinSet::new();
    let turn = Arc::default();
    loop {
        tokio::select! {
            offer = connection.accept() => {
                let Some(offer) = offer else { break };
                if let Some(first) = join(offer, &mut pairing) {
                    let (sandbox, turn) = (Arc::clone(sandbox), Arc::clone(&turn));
                    running.spawn(async move {
                        if let Some(pair) = paired(first, time_limit).await {
                            forward(pair, sandbox, turn).await;
                        }
                    });
                }
            }
            Some(_) = running.join_next() => {}
        }
    }
    drop(pairing);
    // Their streams have ended. Each task delivers what has arrived, and ends.
    while running.join_next().await.is_some() {}
}

/// Forwards one connection until both directions have ended. The connections of one client take turns to
/// send to it.
async fn forward(pair: StreamPair, sandbox: Arc<SandboxRecord>, turn: Arc<Mutex<()>>) {
    let StreamPair { port, data: (reader, mut writer), mut error } = pair;
    let socket = match PodNetwork::of(&sandbox) {
        Some(place) => dial::connect(place, port).await.map_err(|error| chain(&error)),
        None => Err("the pod no longer has a network".to_owned()),
    };
    let reason = match socket {
        Ok(socket) => return relay::run(socket, (reader, &mut writer), &mut error, &turn).await,
        Err(reason) => reason,
    };
    debug!(sandbox = %sandbox.id, port, reason, "cannot forward a connection");
    // kubelet's message with the sandbox instead of the pod. The pod's uid is unknown here.
    let text = format!("error forwarding port {port} to pod {}, uid : {reason}", sandbox.id);
    // A client that has disconnected needs no error.
    let _ = error.send(text.into()).await;
    let _ = error.finish().await;
    let _ = writer.finish().await;
}

/// Handles a stream that the client offers. Returns it if it is the first one of a pair.
fn join(
    offer: OfferedStream,
    pairing: &mut Pairing<(Receiver, Sender)>,
) -> Option<FirstStream<(Receiver, Sender)>> {
    match PairStream::read(offer.id(), |name| offer.header(name)) {
        // The client opens the second stream only after the first was accepted.
        Ok(half) => pairing.join(half, || offer.accept()),
        Err(reason) => {
            info!(reason, "refused a port-forward stream");
            None
        }
    }
}

/// Waits for the second stream. None if the client does not open it in time, or has left.
async fn paired(
    first: FirstStream<(Receiver, Sender)>,
    time_limit: Duration,
) -> Option<StreamPair> {
    let FirstStream { accepted: AcceptedStream { half, stream }, second } = first;
    match timeout(time_limit, second).await {
        Ok(arrived) => {
            let AcceptedStream { half: other, stream: second } = arrived.ok()?;
            let (port, data, error) = match half.role {
                StreamType::Data => (half.port, stream, second),
                StreamType::Error => (other.port, second, stream),
            };
            let (reader, writer) = data;
            let data = (Reader::Spdy(reader), Writer::Spdy(writer));
            Some(StreamPair { port, data, error: Writer::Spdy(error.1) })
        }
        Err(_) => {
            info!(role = ?half.role, "closed a port-forward stream: the second stream of its pair was never opened");
            let (_, mut sender) = stream;
            if half.role == StreamType::Error {
                let _ = sender.send("timed out waiting for the data stream".into()).await;
                let _ = sender.finish().await;
            } else {
                sender.reset();
            }
            None
        }
    }
}

/// How long a client may take for the second stream of a pair.
const CREATION_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;

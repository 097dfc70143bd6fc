//! Port-forward: connects a client with ports in a sandbox.
//!
//! A port-forward starts no process in the pod. Unless the pod uses the host's network, a short-lived thread opens
//! sockets inside the pod's network namespace, and other threads connect and use the sockets.

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

/// The client's two streams for one forwarded connection.
#[derive(Debug)]
pub struct StreamPair {
    pub port: u16,
    pub data: (Reader, Writer),
    /// The stream on which dockbridge says why it cannot connect to the port.
    pub error: Writer,
}

/// Forwards the connections that a client opens over SPDY, until the client's SPDY connection has ended.
pub async fn over_spdy(connection: Connection, sandbox: &Arc<SandboxRecord>) {
    pair_up(connection, sandbox, CREATION_TIMEOUT).await;
}

/// Forwards one connection for each of a WebSocket client's `pairs`, until all these connections have ended.
pub async fn over_channels(pairs: Vec<StreamPair>, sandbox: &Arc<SandboxRecord>) {
    let mut running = JoinSet::new();
    let output_lock = Arc::default();
    for pair in pairs {
        running.spawn(forward(pair, Arc::clone(sandbox), Arc::clone(&output_lock)));
    }
    while running.join_next().await.is_some() {}
}

async fn pair_up(mut connection: Connection, sandbox: &Arc<SandboxRecord>, time_limit: Duration) {
    let mut pairing = Pairing::new();
    let mut running = JoinSet::new();
    let output_lock = Arc::default();
    loop {
        tokio::select! {
            offer = connection.accept() => {
                let Some(offer) = offer else { break };
                if let Some(first) = join(offer, &mut pairing) {
                    let (sandbox, output_lock) = (Arc::clone(sandbox), Arc::clone(&output_lock));
                    running.spawn(async move {
                        if let Some(pair) = paired(first, time_limit).await {
                            forward(pair, sandbox, output_lock).await;
                        }
                    });
                }
            }
            Some(_) = running.join_next() => {}
        }
    }
    drop(pairing);
    // The SPDY connection has ended. Each task delivers data that the client had sent, for a limited time, and ends.
    while running.join_next().await.is_some() {}
}

/// Forwards one connection. Forwarded connections of the same client take turns in sending to the client.
async fn forward(pair: StreamPair, sandbox: Arc<SandboxRecord>, output_lock: Arc<Mutex<()>>) {
    let StreamPair { port, data: (reader, mut writer), mut error } = pair;
    let socket = match PodNetwork::of(&sandbox) {
        Some(place) => dial::connect(place, port).await.map_err(|error| chain(&error)),
        None => Err("the pod has no network".to_owned()),
    };
    let reason = match socket {
        Ok(socket) => {
            return relay::run(socket, (reader, &mut writer), &mut error, &output_lock).await;
        }
        Err(reason) => reason,
    };
    debug!(sandbox = %sandbox.id, port, reason, "cannot forward a connection");
    // kubelet's message, with the sandbox id instead of the pod's name, and with an empty uid.
    let text = format!("error forwarding port {port} to pod {}, uid : {reason}", sandbox.id);
    // The sends fail if the client has reset the streams or disconnected, and then the error is not needed.
    let _ = error.send(text.into()).await;
    let _ = error.finish().await;
    let _ = writer.finish().await;
}

/// Handles a stream that the client offers. Returns the stream if it is the first of a pair.
fn join(
    offer: OfferedStream,
    pairing: &mut Pairing<(Receiver, Sender)>,
) -> Option<FirstStream<(Receiver, Sender)>> {
    let half = PairStream::read(offer.id(), |name| offer.header(name))
        .inspect_err(|reason| info!(reason, "refused a port-forward stream"))
        .ok()?;
    // kubectl opens the second stream only after dockbridge has accepted the first stream.
    pairing.join(half, || offer.accept())
}

/// Waits for the second stream of a pair. Returns `None` if the client disconnects before that, or at the time limit.
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
            info!(role = ?half.role, "closed a port-forward stream: the second stream of its pair was not opened in time");
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

/// How long a client may take to open the second stream of a pair.
const CREATION_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;

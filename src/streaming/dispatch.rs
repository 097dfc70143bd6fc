//! Runs exec, attach or port-forward after the HTTP upgrade, over SPDY or WebSocket.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::{
    attach,
    channel::{Reader, Writer},
    client_connection::ClientConnection,
    command::{client::Client, opening, outcome::Outcome},
    exec,
    forward::{self, StreamPair},
    inbox::Window,
    service::{PendingStream, Streaming},
    spdy::connection::Connection,
    upgrade::{Encoding, Protocol},
    websocket::{message::Format, socket::Socket, tunnel::Tunnel},
};
use crate::model::{
    record::SandboxRecord,
    stream::{ForwardSpec, Streams},
};

/// The connection after the HTTP upgrade, or `None` if the client disconnected before the upgrade was complete.
pub(super) async fn taken_over(connection: OnUpgrade) -> Option<ClientConnection> {
    let upgraded = connection.await.inspect_err(|error| {
        debug!(%error, "client disconnected before its stream began");
    });
    // `downcast` succeeds, because the HTTP server created the connection with this type.
    let parts = upgraded.ok()?.downcast::<TokioIo<TcpStream>>().ok()?;
    Some(ClientConnection::new(parts.io.into_inner(), parts.read_buf))
}

pub(super) async fn serve(
    wire: ClientConnection,
    pending: PendingStream,
    protocol: Protocol,
    streaming: &Streaming,
    stop: &CancellationToken,
) {
    let window = Window::default();
    match pending {
        PendingStream::Exec(spec) => {
            let Some(mut client) = open(wire, window, spec.streams, protocol).await else { return };
            let outcome = exec::run(streaming, &spec, &mut client, stop).await;
            part("exec", EXEC_FAILED, &spec.container, client, outcome).await;
        }
        PendingStream::Attach(spec) => {
            let Some(mut client) = open(wire, window, spec.streams, protocol).await else { return };
            let outcome = attach::run(streaming, &spec, &mut client, stop).await;
            part("attach", ATTACH_FAILED, &spec.container, client, outcome).await;
        }
        PendingStream::Forward(spec) => {
            let now = streaming.store.snapshot();
            match now.sandbox(&spec.sandbox) {
                Some(sandbox) => forward(wire, window, &spec, sandbox, protocol).await,
                None => debug!(
                    sandbox = spec.sandbox,
                    "the pod was removed before its ports were forwarded"
                ),
            }
        }
    }
}

async fn open(
    wire: ClientConnection,
    window: Window,
    streams: Streams,
    protocol: Protocol,
) -> Option<Client> {
    let opening = async {
        match protocol {
            Protocol::Spdy(version) => opening::over_spdy(wire, window, streams, version).await,
            Protocol::Channels(version, encoding) => {
                opening::over_web_socket(wire, window, streams, version, encoding).await
            }
            // dockbridge never negotiates a tunnel for exec and attach.
            Protocol::Tunnel => None,
        }
    };
    let opened = timeout(CREATION_TIMEOUT, opening).await.inspect_err(|_| {
        info!("the client did not open its streams within {CREATION_TIMEOUT:?}");
    });
    opened.ok().flatten()
}

/// Reports the outcome to the client, unless the client has disconnected. `failed` precedes the reason.
async fn part(
    verb: &'static str,
    failed: &str,
    container: &str,
    client: Client,
    outcome: Result<Option<Outcome>, String>,
) {
    match outcome.unwrap_or_else(|reason| Some(Outcome::Failure(format!("{failed}: {reason}")))) {
        Some(outcome) => {
            debug!(container, verb, ?outcome, "stream ended");
            client.finish(&outcome).await;
        }
        None => debug!(container, verb, "client disconnected"),
    }
}

async fn forward(
    wire: ClientConnection,
    window: Window,
    spec: &ForwardSpec,
    sandbox: &Arc<SandboxRecord>,
    protocol: Protocol,
) {
    match protocol {
        Protocol::Spdy(_) => forward::over_spdy(Connection::start(wire, window), sandbox).await,
        Protocol::Tunnel => {
            forward::over_spdy(Connection::start(Tunnel::open(wire), window), sandbox).await;
        }
        Protocol::Channels(_, encoding) => {
            let (socket, pairs) = pairs(wire, &window, &spec.ports, encoding).await;
            forward::over_channels(pairs, sandbox).await;
            let _ = timeout(CREATION_TIMEOUT, socket.close()).await;
        }
    }
}

/// Opens a data and an error channel for each port. The first message on each channel has the port's number.
async fn pairs(
    wire: ClientConnection,
    window: &Window,
    ports: &[u16],
    encoding: Encoding,
) -> (Socket, Vec<StreamPair>) {
    let (routes, readers): (Vec<_>, Vec<_>) = ports.iter().map(|_| window.stream()).unzip();
    let routes = routes.into_iter().flat_map(|data| [Some(data), None]).collect();
    let socket = Socket::open(wire, Format { encoding, closes: false }, routes);
    let mut numbers = 0_u8..;
    let mut pairs = Vec::new();
    for (port, reader) in ports.iter().zip(readers) {
        let (Some(data), Some(error)) = (numbers.next(), numbers.next()) else { break };
        let (data, error) = (socket.outgoing(data), socket.outgoing(error));
        for outgoing in [&data, &error] {
            // `send` fails if the client has disconnected, which the copy of the data will notice.
            let _ = outgoing.send(Bytes::copy_from_slice(&port.to_le_bytes())).await;
        }
        let data = (Reader::WebSocket(reader), Writer::WebSocket(data));
        pairs.push(StreamPair { port: *port, data, error: Writer::WebSocket(error) });
    }
    (socket, pairs)
}

const EXEC_FAILED: &str = "error executing command in container";
const ATTACH_FAILED: &str = "error attaching to container";
/// How long a client may take to open its streams, or to close the WebSocket of a port-forward.
const CREATION_TIMEOUT: Duration = Duration::from_secs(30);

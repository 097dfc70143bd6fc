//! Opens the streams of an exec or attach after the HTTP upgrade.

use std::collections::HashMap;

use bytes::Bytes;

use super::{
    client::{Client, Transport},
    size::Sizes,
};
use crate::{
    model::stream::Streams,
    streaming::{
        channel::{Reader, Writer},
        client_connection::ClientConnection,
        inbox::Window,
        spdy::{
            connection::Connection,
            stream::{Receiver, Sender},
        },
        upgrade::{Encoding, Version},
        websocket::{message::Format, socket::Socket},
    },
};

/// Waits for all required SPDY streams, in any order. Returns `None` if the client disconnects.
pub async fn over_spdy(
    wire: ClientConnection,
    window: Window,
    streams: Streams,
    version: Version,
) -> Option<Client> {
    let watch = wire.watch();
    let mut connection = Connection::start(wire, window);
    let Streams { stdin, stdout, stderr, tty } = streams;
    let resize = tty && version >= Version::V3;
    let mut missing = vec![ERROR];
    for (name, wanted) in [(STDIN, stdin), (STDOUT, stdout), (STDERR, stderr), (RESIZE, resize)] {
        missing.extend(wanted.then_some(name));
    }
    let mut open: HashMap<&str, (Receiver, Sender)> = HashMap::new();
    while !missing.is_empty() {
        let offer = connection.accept().await?;
        let name = offer.header("streamtype");
        match missing.iter().position(|one| name == Some(*one)) {
            // The client waits until dockbridge accepts a stream before it opens the next stream.
            Some(place) => drop(open.insert(missing.swap_remove(place), offer.accept())),
            None => drop(offer),
        }
    }
    let mut idle = Vec::new();
    let mut reader = |name| {
        let (receiver, sender) = open.remove(name)?;
        idle.push(Writer::Spdy(sender));
        Some(Reader::Spdy(receiver))
    };
    let (stdin, sizes) = (reader(STDIN), reader(RESIZE).map(Sizes::new));
    let mut writer = |name| Some(Writer::Spdy(open.remove(name)?.1));
    let (stdout, stderr, error) = (writer(STDOUT), writer(STDERR), writer(ERROR)?);
    let transport = Transport::Spdy(connection);
    Some(Client { stdin, stdout, stderr, sizes, error, version, idle, transport, watch })
}

/// Opens the channels of a WebSocket. An empty message on the first requested output channel, or otherwise on the error
/// channel, tells the client that the channels are open. Returns `None` if the client has disconnected.
pub async fn over_web_socket(
    wire: ClientConnection,
    window: Window,
    streams: Streams,
    version: Version,
    encoding: Encoding,
) -> Option<Client> {
    let (stdin_sender, stdin) = window.stream();
    let (sizes_sender, sizes) = window.stream();
    // A WebSocket has the channel for terminal sizes in every version of the protocol, but SPDY only from v3 on.
    let routes = [
        streams.stdin.then_some(stdin_sender),
        None,
        None,
        None,
        streams.tty.then_some(sizes_sender),
    ];
    let format = Format { encoding, closes: version >= Version::V5 };
    let watch = wire.watch();
    let socket = Socket::open(wire, format, routes.into());
    let [stdout, stderr, error] = [1, 2, 3].map(|channel| socket.outgoing(channel));
    let first = match streams {
        Streams { stdout: true, .. } => &stdout,
        Streams { stderr: true, .. } => &stderr,
        _ => &error,
    };
    first.send(Bytes::new()).await.ok()?;
    Some(Client {
        stdin: streams.stdin.then_some(Reader::WebSocket(stdin)),
        stdout: streams.stdout.then_some(Writer::WebSocket(stdout)),
        stderr: streams.stderr.then_some(Writer::WebSocket(stderr)),
        sizes: streams.tty.then(|| Sizes::new(Reader::WebSocket(sizes))),
        error: Writer::WebSocket(error),
        version,
        idle: Vec::new(),
        transport: Transport::WebSocket(socket),
        watch,
    })
}

const STDIN: &str = "stdin";
const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";
const RESIZE: &str = "resize";
const ERROR: &str = "error";

//! Exec and attach over WebSocket: all channels exist from the start.

use bytes::Bytes;

use super::{
    client::{Client, Expected, Transport},
    size::Sizes,
};
use crate::{
    model::stream::Streams,
    streaming::{
        channel::{Reader, Writer},
        client_connection::ClientConnection,
        inbox::Window,
        spdy::stream::Gone,
        upgrade::{Encoding, Version},
        websocket::{message::Format, socket::Socket},
    },
};

/// Opens the channels and confirms this to the client.
///
/// # Errors
/// The client has already disconnected.
pub async fn open(
    wire: ClientConnection,
    window: Window,
    streams: Streams,
    version: Version,
    encoding: Encoding,
) -> Result<Client, Gone> {
    let expected = Expected::of(streams, version);
    let (typed, stdin) = window.stream();
    let (resized, sizes) = window.stream();
    let mut routes = vec![None; CHANNELS];
    if let [input, .., resize] = routes.as_mut_slice() {
        *input = expected.stdin.then_some(typed);
        // Unlike in SPDY, this channel exists in every version.
        *resize = streams.tty.then_some(resized);
    }
    let format = Format { encoding, closes: version >= Version::V5 };
    let watch = wire.watch();
    let socket = Socket::open(wire, format, routes);
    let writer = |channel| Writer::WebSocket(socket.outgoing(channel));
    let first = match expected {
        Expected { stdout: true, .. } => STDOUT,
        Expected { stderr: true, .. } => STDERR,
        _ => ERROR,
    };
    socket.outgoing(first).send(Bytes::new()).await?;
    Ok(Client {
        stdin: expected.stdin.then_some(Reader::WebSocket(stdin)),
        stdout: expected.stdout.then(|| writer(STDOUT)),
        stderr: expected.stderr.then(|| writer(STDERR)),
        sizes: streams.tty.then(|| Sizes::new(Reader::WebSocket(sizes))),
        error: writer(ERROR),
        version,
        idle: Vec::new(),
        transport: Transport::WebSocket(socket),
        watch,
    })
}

/// Input, two outputs, outcome and terminal sizes.
const CHANNELS: usize = 5;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;

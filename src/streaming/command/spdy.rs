//! Exec and attach over SPDY: the client opens the streams in any order.

use super::{
    client::{Client, Expected, Transport},
    size::Sizes,
};
use crate::{
    model::stream::Streams,
    streaming::{
        channel::{Reader, Writer},
        client_connection::{ClientConnection, DisconnectWatch},
        inbox::Window,
        spdy::{
            connection::Connection,
            stream::{OfferedStream, Stream},
        },
        upgrade::Version,
    },
};

/// Waits until the client has opened all required streams. None if it disconnects before that.
pub async fn open(
    wire: ClientConnection,
    window: Window,
    streams: Streams,
    version: Version,
) -> Option<Client> {
    let watch = wire.watch();
    let mut connection = Connection::start(wire, window);
    let mut open = Open::new(Expected::of(streams, version));
    while !open.is_complete() {
        open.take(connection.accept().await?);
    }
    open.client(connection, version, watch)
}

/// The streams that are open so far.
struct Open {
    expected: Expected,
    stdin: Option<Stream>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    resize: Option<Stream>,
    error: Option<Stream>,
}

impl Open {
    const fn new(expected: Expected) -> Self {
        Self { expected, stdin: None, stdout: None, stderr: None, resize: None, error: None }
    }

    /// Accepts a requested stream. The client waits for this before it opens the next one, so this must not
    /// wait for the others.
    fn take(&mut self, offer: OfferedStream) {
        let Expected { stdin, stdout, stderr, resize } = self.expected;
        let (wanted, place) = match offer.header(STREAM_TYPE) {
            Some("stdin") => (stdin, &mut self.stdin),
            Some("stdout") => (stdout, &mut self.stdout),
            Some("stderr") => (stderr, &mut self.stderr),
            Some("resize") => (resize, &mut self.resize),
            Some("error") => (true, &mut self.error),
            _ => return offer.refuse(),
        };
        if !wanted || place.is_some() {
            return offer.refuse();
        }
        *place = Some(offer.accept());
    }

    const fn is_complete(&self) -> bool {
        let Expected { stdin, stdout, stderr, resize } = self.expected;
        self.error.is_some()
            && self.stdin.is_some() == stdin
            && self.stdout.is_some() == stdout
            && self.stderr.is_some() == stderr
            && self.resize.is_some() == resize
    }

    /// A client with these streams. None without the stream for the outcome.
    fn client(
        self,
        connection: Connection,
        version: Version,
        watch: DisconnectWatch,
    ) -> Option<Client> {
        let mut idle = Vec::new();
        let mut reader = |stream: Stream| {
            let (receiver, sender) = stream.split();
            idle.push(Writer::Spdy(sender));
            Reader::Spdy(receiver)
        };
        Some(Client {
            stdin: self.stdin.map(&mut reader),
            sizes: self.resize.map(&mut reader).map(Sizes::new),
            stdout: self.stdout.map(writer),
            stderr: self.stderr.map(writer),
            error: writer(self.error?),
            version,
            idle,
            transport: Transport::Spdy(connection),
            watch,
        })
    }
}

fn writer(stream: Stream) -> Writer {
    Writer::Spdy(stream.split().1)
}

const STREAM_TYPE: &str = "streamtype";

//! The client of an exec or attach: its streams, all open, and the connection they live on.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::{outcome::Outcome, size::Sizes};
use crate::{
    model::stream::{Streams, TerminalSize},
    streaming::{
        channel::{Reader, Writer},
        client_connection::DisconnectWatch,
        spdy::connection::Connection,
        upgrade::Version,
        websocket::socket::Socket,
    },
};

/// A client whose streams are open. Dropped, it is cut off.
#[derive(Debug)]
pub struct Client {
    pub stdin: Option<Reader>,
    pub stdout: Option<Writer>,
    /// Where errors go; never of a terminal.
    pub stderr: Option<Writer>,
    pub sizes: Option<Sizes>,
    pub error: Writer,
    pub version: Version,
    /// Directions that nothing goes in; letting go of them would break the stream off.
    pub idle: Vec<Writer>,
    pub line: Line,
    /// Whether it still takes what it is sent.
    pub watch: DisconnectWatch,
}

/// What all the streams of a client live on.
#[derive(Debug)]
pub enum Line {
    Spdy(Connection),
    WebSocket(Socket),
}

impl Line {
    /// Resolves when the client has gone. Cancel-safe.
    pub async fn gone(&mut self) {
        match self {
            // Streams that were not asked for are refused.
            Self::Spdy(connection) => while connection.accept().await.is_some() {},
            Self::WebSocket(socket) => socket.gone().await,
        }
    }

    /// Sends the close and waits for the client's: it still has to read what was sent.
    async fn close(&mut self) {
        match self {
            Self::Spdy(_) => self.gone().await,
            Self::WebSocket(socket) => socket.close().await,
        }
    }
}

impl Client {
    /// The first size of the terminal, if the client sends it soon enough.
    pub async fn first_size(&mut self) -> Option<TerminalSize> {
        let sizes = self.sizes.as_mut()?;
        timeout(FIRST_SIZE, sizes.next()).await.ok().flatten()
    }

    /// Ends the outputs, sends the outcome, and closes the connection when the client has read all that.
    /// A client that takes nothing for [`PAUSE`] is left, and so is one that does not leave.
    pub async fn part(mut self, outcome: &Outcome) {
        self.stdin = None;
        let watch = self.watch.clone();
        tokio::select! {
            () = self.send_and_close(outcome) => {}
            () = watch.stalled(PAUSE) => {}
        }
    }

    async fn send_and_close(&mut self, outcome: &Outcome) {
        let Self { stdout, stderr, error, line, .. } = self;
        tokio::select! {
            () = send_outcome(stdout, stderr, error, outcome.encode(self.version)) => {}
            () = line.gone() => return,
        }
        self.line.close().await;
    }
}

/// Dropped if the receiver is closed.
async fn send_outcome(
    stdout: &mut Option<Writer>,
    stderr: &mut Option<Writer>,
    error: &mut Writer,
    outcome: Option<Bytes>,
) {
    for writer in [stdout, stderr].into_iter().flatten() {
        let _ = writer.finish().await;
    }
    if let Some(outcome) = outcome {
        let _ = error.send(outcome).await;
    }
    let _ = error.finish().await;
}

/// The streams that a client has to open, besides the one for the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    pub stdin: bool,
    pub stdout: bool,
    /// Standard error: a terminal has none.
    pub stderr: bool,
    pub resize: bool,
}

impl Expected {
    /// What the request and the version of the protocol lead to.
    pub fn of(streams: Streams, version: Version) -> Self {
        Self {
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr && !streams.tty,
            resize: streams.tty && version >= Version::V3,
        }
    }
}

/// How long a client with a terminal may take to send its size before the process starts
/// without: clients send it as soon as the streams are open.
const FIRST_SIZE: Duration = Duration::from_millis(200);
/// How long a client may read nothing of the last bytes and the outcome: somebody who pages
/// through the output stops now and then.
const PAUSE: Duration = Duration::from_secs(60);

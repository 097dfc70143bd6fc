//! The client of an exec or attach: its open streams and their connection.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::{outcome::Outcome, size::Sizes};
use crate::{
    model::stream::TerminalSize,
    streaming::{
        channel::{Reader, Writer},
        client_connection::DisconnectWatch,
        spdy::connection::Connection,
        upgrade::Version,
        websocket::socket::Socket,
    },
};

/// A client whose streams are open. Dropping it closes the connection.
#[derive(Debug)]
pub struct Client {
    pub stdin: Option<Reader>,
    pub stdout: Option<Writer>,
    /// Standard error; none with a terminal.
    pub stderr: Option<Writer>,
    pub sizes: Option<Sizes>,
    pub error: Writer,
    pub version: Version,
    /// Streams that are not used in this direction. Dropping them would reset them.
    pub idle: Vec<Writer>,
    pub transport: Transport,
    /// Notices whether the client still receives data.
    pub watch: DisconnectWatch,
}

/// The connection of all the client's streams.
#[derive(Debug)]
pub enum Transport {
    Spdy(Connection),
    WebSocket(Socket),
}

impl Transport {
    /// Resolves when the client has disconnected. Cancel-safe.
    pub async fn closed(&mut self) {
        match self {
            // Further streams are refused.
            Self::Spdy(connection) => while connection.accept().await.is_some() {},
            Self::WebSocket(socket) => socket.closed().await,
        }
    }

    /// Sends the close and waits for the client's, because the client may still be reading.
    async fn close(&mut self) {
        match self {
            Self::Spdy(_) => self.closed().await,
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

    /// Ends the outputs, sends the outcome, and closes the connection after the client has read everything.
    /// If the client receives nothing for [`PAUSE`], or does not close, this stops waiting.
    pub async fn finish(mut self, outcome: &Outcome) {
        self.stdin = None;
        let watch = self.watch.clone();
        tokio::select! {
            () = self.send_and_close(outcome) => {}
            () = watch.stalled(PAUSE) => {}
        }
    }

    async fn send_and_close(&mut self, outcome: &Outcome) {
        let Self { stdout, stderr, error, transport, .. } = self;
        tokio::select! {
            () = send_outcome(stdout, stderr, error, outcome.encode(self.version)) => {}
            () = transport.closed() => return,
        }
        self.transport.close().await;
    }
}

/// If the receiver is closed, the outcome is dropped.
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

/// How long a client with a terminal may take to send its size. After that the process starts without one.
/// Clients send the size as soon as the streams are open.
const FIRST_SIZE: Duration = Duration::from_millis(200);
/// How long a client may read nothing of the last output and the outcome. A user with a pager stops reading
/// now and then.
const PAUSE: Duration = Duration::from_secs(60);

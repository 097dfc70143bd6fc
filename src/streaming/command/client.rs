//! The client of an exec or attach: its open streams, and the connection that carries them.

use std::time::Duration;

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

/// A client whose streams are open. Dropping the client and all watches of the connection closes the connection.
#[derive(Debug)]
pub struct Client {
    pub stdin: Option<Reader>,
    pub stdout: Option<Writer>,
    /// `None` if the request does not ask for standard error.
    pub stderr: Option<Writer>,
    pub sizes: Option<Sizes>,
    pub error: Writer,
    pub version: Version,
    /// Over SPDY, dockbridge's sending halves of the streams stdin and resize. dockbridge sends nothing on them, but
    /// without them, dropping the reader of a stream could reset the stream.
    pub idle: Vec<Writer>,
    pub transport: Transport,
    /// Notices whether the client still receives data.
    pub watch: DisconnectWatch,
}

/// The connection that carries all streams of the client.
#[derive(Debug)]
pub enum Transport {
    Spdy(Connection),
    WebSocket(Socket),
}

impl Transport {
    /// Resolves when the client has disconnected, closed the WebSocket or violated the protocol. Cancel-safe.
    pub async fn closed(&mut self) {
        match self {
            // A SPDY client may try to open more streams. Dropping an offered stream refuses it.
            Self::Spdy(connection) => while connection.accept().await.is_some() {},
            Self::WebSocket(socket) => socket.closed().await,
        }
    }

    /// Sends a close frame over WebSocket, and nothing over SPDY. Then waits until the client closes the connection,
    /// because the client may still be reading.
    async fn close(&mut self) {
        match self {
            Self::Spdy(_) => self.closed().await,
            Self::WebSocket(socket) => socket.close().await,
        }
    }
}

impl Client {
    /// The first size of the terminal, if the client sends it within [`FIRST_SIZE`].
    pub async fn first_size(&mut self) -> Option<TerminalSize> {
        let sizes = self.sizes.as_mut()?;
        timeout(FIRST_SIZE, sizes.next()).await.ok().flatten()
    }

    /// Ends the output streams, sends the outcome, and waits until the client closes the connection. Gives up
    /// if the client receives nothing for [`READ_PAUSE`].
    pub async fn finish(mut self, outcome: &Outcome) {
        self.stdin = None;
        let watch = self.watch.clone();
        tokio::select! {
            () = self.send_and_close(outcome) => {}
            () = watch.stalled(READ_PAUSE) => {}
        }
    }

    async fn send_and_close(&mut self, outcome: &Outcome) {
        let outcome = outcome.encode(self.version);
        let Self { stdout, stderr, error, transport, .. } = self;
        // Errors are ignored, because the client may have disconnected.
        let sending = async {
            for writer in [stdout, stderr].into_iter().flatten() {
                let _ = writer.finish().await;
            }
            if let Some(outcome) = outcome {
                let _ = error.send(outcome).await;
            }
            let _ = error.finish().await;
        };
        tokio::select! {
            () = sending => {}
            () = transport.closed() => return,
        }
        transport.close().await;
    }
}

/// How long an exec with a terminal waits for the terminal's first size before it starts the process without a
/// size. Clients send the size as soon as the streams are open.
const FIRST_SIZE: Duration = Duration::from_millis(200);
/// How long a client may stop reading the last output. A user with a pager stops reading from time to time.
const READ_PAUSE: Duration = Duration::from_secs(60);

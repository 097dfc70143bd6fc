//! Reads or writes one direction of a stream, over SPDY or WebSocket.

use std::time::Duration;

use bytes::Bytes;
use tokio::{sync::mpsc, time::timeout};

use super::{
    failure::{Failure, Outcome, fail},
    patience::patient,
    spdy::client::SpdyWriter,
    websocket::SocketWriter,
};

/// Receives the data of one stream. If [`AHEAD`] pieces wait because the story does not read this stream, the
/// client stops reading the whole connection.
#[derive(Debug)]
pub(crate) struct Reader {
    pieces: mpsc::Receiver<Bytes>,
    pending: Vec<u8>,
}

impl Reader {
    /// Reads the pieces that a connection receives for one stream.
    pub(crate) const fn new(pieces: mpsc::Receiver<Bytes>) -> Self {
        Self { pieces, pending: Vec::new() }
    }

    /// The next piece of the stream, or `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Outcome<Option<Bytes>> {
        if !self.pending.is_empty() {
            return Ok(Some(std::mem::take(&mut self.pending).into()));
        }
        timeout(patience(), self.pieces.recv())
            .await
            .map_err(|_late| Failure(format!("nothing to read for {:?}", patience())))
    }

    /// Reads until `text` has arrived, and returns everything up to the end of `text`. Later data can still be read.
    pub(crate) async fn until(&mut self, text: &str) -> Outcome<String> {
        let mut seen = Vec::new();
        loop {
            let place = seen.windows(text.len()).position(|window| window == text.as_bytes());
            if let Some(place) = place {
                self.pending = seen.split_off(place + text.len());
                return Ok(String::from_utf8_lossy(&seen).into_owned());
            }
            let piece = self.next().await.map_err(|failure| {
                Failure(format!(
                    "{failure}; waiting for {text:?} after {:?}",
                    String::from_utf8_lossy(&seen)
                ))
            })?;
            match piece {
                Some(piece) => seen.extend_from_slice(&piece),
                None => fail!("ended before {text:?}: {:?}", String::from_utf8_lossy(&seen)),
            }
        }
    }

    /// Reads all data up to the end of the stream.
    pub(crate) async fn rest(&mut self) -> Outcome<Vec<u8>> {
        let mut seen = Vec::new();
        while let Some(piece) = self.next().await? {
            seen.extend_from_slice(&piece);
        }
        Ok(seen)
    }

    /// Reads all data up to the end of the stream, as text.
    pub(crate) async fn text(&mut self) -> Outcome<String> {
        Ok(String::from_utf8_lossy(&self.rest().await?).into_owned())
    }
}

/// Sends data on one stream.
#[derive(Debug)]
pub(crate) enum Writer {
    /// A SPDY stream.
    Spdy(SpdyWriter),
    /// A WebSocket channel.
    WebSocket(SocketWriter),
}

impl Writer {
    /// Sends bytes. Waits while the connection's buffer is full.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Outcome {
        match self {
            Self::Spdy(writer) => writer.send(bytes).await,
            Self::WebSocket(writer) => writer.send(bytes).await,
        }
    }

    /// Ends both directions of a SPDY stream at once. Fails for a WebSocket channel.
    pub(crate) async fn reset(&self) -> Outcome {
        match self {
            Self::Spdy(writer) => writer.reset().await,
            Self::WebSocket(_) => fail!("a channel cannot be reset"),
        }
    }

    /// Ends the sending direction of the stream.
    pub(crate) async fn finish(&self) -> Outcome {
        match self {
            Self::Spdy(writer) => writer.finish().await,
            Self::WebSocket(writer) => writer.finish().await,
        }
    }
}

/// The number of received pieces of a stream that may wait for the reader.
pub(crate) const AHEAD: usize = 16;

/// The time limit of each single wait of a streaming client.
pub(crate) fn patience() -> Duration {
    patient(Duration::from_secs(60))
}

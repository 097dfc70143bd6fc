//! Buffers data that a client has sent over SPDY or WebSocket, until dockbridge passes the data on.
//!
//! While data waits for room in the window of a connection, dockbridge does not read from this connection, but still
//! reads from other connections.

use std::{io, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

/// Limits the buffered data that a client has sent over a connection. Clones share the limit.
#[derive(Clone, Debug)]
pub struct Window {
    pub(super) capacity: Arc<Semaphore>,
}

/// Adds pieces of data to the buffer of one stream.
#[derive(Clone, Debug)]
pub struct InboxSender {
    pieces: mpsc::UnboundedSender<(Bytes, OwnedSemaphorePermit)>,
    window: Window,
}

/// Reads the buffered data of one stream. After this value is dropped, dockbridge discards further data of the stream.
#[derive(Debug)]
pub struct Inbox {
    pieces: mpsc::UnboundedReceiver<(Bytes, OwnedSemaphorePermit)>,
    /// Keeps the window's room for the bytes that were returned last, until the next bytes are requested.
    permit: Option<OwnedSemaphorePermit>,
}

impl Default for Window {
    fn default() -> Self {
        Self { capacity: Arc::new(Semaphore::new(WINDOW)) }
    }
}

impl Window {
    /// Makes the sender and the reader for a new stream of this connection.
    pub fn stream(&self) -> (InboxSender, Inbox) {
        let (sender, pieces) = mpsc::unbounded_channel();
        (InboxSender { pieces: sender, window: self.clone() }, Inbox { pieces, permit: None })
    }
}

impl InboxSender {
    /// Adds data. Waits until the window has room. Returns false if the reader was dropped.
    pub async fn send(&self, bytes: Bytes) -> bool {
        let cost = u32::try_from(bytes.len() + PIECE_COST).unwrap_or(u32::MAX);
        let permit = tokio::select! {
            permit = Arc::clone(&self.window.capacity).acquire_many_owned(cost) => permit.ok(),
            () = self.pieces.closed() => None,
        };
        let Some(permit) = permit else { return false };
        // `send` copies a small piece, so that the piece does not keep the memory of the whole read buffer.
        let bytes =
            if bytes.len() < UNCOPIED_SIZE { Bytes::copy_from_slice(&bytes) } else { bytes };
        self.pieces.send((bytes, permit)).is_ok()
    }
}

impl Inbox {
    /// The next bytes of the stream, never empty and at most [`LARGEST_PIECE`]. `None` at the end of the
    /// stream. Cancel-safe. Frees the room that the previously returned bytes had in the window.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.permit = None;
        let piece = self.pieces.recv().await;
        self.keep_permit(piece)
    }

    /// The next bytes of the stream, if they have already arrived.
    pub fn next_now(&mut self) -> Option<Bytes> {
        let piece = self.pieces.try_recv().ok();
        self.keep_permit(piece)
    }

    fn keep_permit(&mut self, piece: Option<(Bytes, OwnedSemaphorePermit)>) -> Option<Bytes> {
        let (bytes, permit) = piece?;
        self.permit = Some(permit);
        Some(bytes)
    }
}

/// Reads from a client into `input`. Returns false at the end of the client's data.
pub async fn read(from: &mut (impl AsyncRead + Unpin), input: &mut BytesMut) -> io::Result<bool> {
    if input.capacity() - input.len() < UNCOPIED_SIZE {
        input.reserve(LARGEST_PIECE);
    }
    Ok(from.read_buf(input).await? > 0)
}

/// How long dockbridge may take to deliver the last data of a disconnected client.
pub const LAST_INPUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes that dockbridge passes on at once. 1,000 connections with such a buffer need about 16 MiB.
pub const LARGEST_PIECE: usize = 16 << 10;
/// Size of a window: room for two largest pieces, one that is being passed on and one that waits.
const WINDOW: usize = 2 * (LARGEST_PIECE + PIECE_COST);
/// Memory that each piece needs in addition to its bytes.
const PIECE_COST: usize = 128;
/// Pieces of at least this size stay in the read buffer and are not copied.
const UNCOPIED_SIZE: usize = LARGEST_PIECE / 2;

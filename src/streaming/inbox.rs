//! Data that a client has sent on a connection and that was not read yet, in pieces. SPDY and WebSocket use it.
//!
//! If the window of a connection is full, the connection is not read until there is room. Connections do
//! not wait for each other.

use std::{io, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

/// Limits how much data of a connection may wait to be read. Clones share the limit.
#[derive(Clone, Debug)]
pub struct Window {
    pub(super) capacity: Arc<Semaphore>,
}

/// Adds the pieces of one stream.
#[derive(Clone, Debug)]
pub struct InboxSender {
    pieces: mpsc::UnboundedSender<(Bytes, OwnedSemaphorePermit)>,
    window: Window,
}

/// Reads one stream. After a drop, further data is discarded.
#[derive(Debug)]
pub struct Inbox {
    pieces: mpsc::UnboundedReceiver<(Bytes, OwnedSemaphorePermit)>,
    /// Counts the last returned bytes until the next ones are requested.
    permit: Option<OwnedSemaphorePermit>,
}

impl Default for Window {
    fn default() -> Self {
        Self { capacity: Arc::new(Semaphore::new(WINDOW)) }
    }
}

impl Window {
    /// The two ends of a stream of this connection.
    pub fn stream(&self) -> (InboxSender, Inbox) {
        let (sender, pieces) = mpsc::unbounded_channel();
        (InboxSender { pieces: sender, window: self.clone() }, Inbox { pieces, permit: None })
    }
}

impl InboxSender {
    /// Waits for room in the window. Returns false if the reader was dropped.
    pub async fn send(&self, bytes: Bytes) -> bool {
        let cost = u32::try_from(bytes.len() + COST).unwrap_or(u32::MAX);
        let permit = tokio::select! {
            permit = Arc::clone(&self.window.capacity).acquire_many_owned(cost) => permit.ok(),
            () = self.pieces.closed() => None,
        };
        let Some(permit) = permit else { return false };
        // A small piece is copied, so that it does not keep the whole read buffer.
        let bytes = if bytes.len() < SHARED { Bytes::copy_from_slice(&bytes) } else { bytes };
        self.pieces.send((bytes, permit)).is_ok()
    }
}

impl Inbox {
    /// The next bytes of the input, never empty and at most [`LARGEST_PIECE`]. None at the end of the input.
    /// Cancel-safe. The previous bytes no longer count for the window.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.permit = None;
        let piece = self.pieces.recv().await;
        self.keep_permit(piece)
    }

    /// The next bytes, if they have already arrived.
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

/// Reads from a client into `input`. Returns false at the end.
pub async fn read(from: &mut (impl AsyncRead + Unpin), input: &mut BytesMut) -> io::Result<bool> {
    if input.capacity() - input.len() < SHARED {
        input.reserve(LARGEST_PIECE);
    }
    Ok(from.read_buf(input).await? > 0)
}

/// How long the delivery of a client's last data to the container may take after the client disconnected.
pub const LAST_INPUT: Duration = Duration::from_secs(10);
/// The largest number of bytes passed on at once. 1,000 connections with such a buffer need 16 MiB.
pub const LARGEST_PIECE: usize = 16 << 10;
/// One piece on its way to the process, and one waiting.
const WINDOW: usize = 2 * (LARGEST_PIECE + COST);
/// Memory for each piece in addition to its bytes.
const COST: usize = 128;
/// Pieces of at least this size are not copied from the read buffer.
const SHARED: usize = LARGEST_PIECE / 2;

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

use crate::telemetry::metric::Gauge;

/// Limits how much data of a connection may wait to be read. Clones share the limit.
#[derive(Clone, Debug)]
pub struct Window {
    room: Arc<Semaphore>,
    /// Waiting bytes of all connections.
    waiting: Gauge,
}

/// Adds the pieces of one stream.
#[derive(Clone, Debug)]
pub struct Inlet {
    pieces: mpsc::UnboundedSender<Piece>,
    window: Window,
}

/// Reads one stream. After a drop, further data is discarded.
#[derive(Debug)]
pub struct Inbox {
    pieces: mpsc::UnboundedReceiver<Piece>,
    /// The share of the last returned bytes, until the next ones are requested.
    held: Option<Share>,
}

#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    share: Share,
}

/// A part of the window.
#[derive(Debug)]
struct Share {
    room: OwnedSemaphorePermit,
    waiting: Gauge,
}

impl Share {
    fn new(room: OwnedSemaphorePermit, waiting: Gauge) -> Self {
        let share = Self { room, waiting };
        share.waiting.inc_by(share.size());
        share
    }

    fn size(&self) -> i64 {
        i64::try_from(self.room.num_permits()).unwrap_or_default()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.waiting.dec_by(self.size());
    }
}

impl Window {
    /// The window of a new connection. Waiting bytes are added to the gauge.
    pub fn new(waiting: Gauge) -> Self {
        Self { room: Arc::new(Semaphore::new(WINDOW)), waiting }
    }

    /// The two ends of a stream of this connection.
    pub fn stream(&self) -> (Inlet, Inbox) {
        let (sender, pieces) = mpsc::unbounded_channel();
        (Inlet { pieces: sender, window: self.clone() }, Inbox { pieces, held: None })
    }
}

impl Inlet {
    /// Waits for room in the window. Returns false if the reader was dropped.
    pub async fn put(&self, bytes: Bytes) -> bool {
        let cost = u32::try_from(bytes.len() + COST).unwrap_or(u32::MAX);
        let room = tokio::select! {
            room = Arc::clone(&self.window.room).acquire_many_owned(cost) => room.ok(),
            () = self.pieces.closed() => None,
        };
        let Some(room) = room else { return false };
        let share = Share::new(room, self.window.waiting.clone());
        // A small piece is copied, so that it does not keep the whole read buffer.
        let bytes = if bytes.len() < SHARED { Bytes::copy_from_slice(&bytes) } else { bytes };
        self.pieces.send(Piece { bytes, share }).is_ok()
    }
}

impl Inbox {
    /// The next bytes of the input, never empty and at most [`LARGEST_PIECE`]. None at the end of the input.
    /// Cancel-safe. The previous bytes no longer count for the window.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.held = None;
        let piece = self.pieces.recv().await;
        self.hold(piece)
    }

    /// The next bytes, if they have already arrived.
    pub fn next_now(&mut self) -> Option<Bytes> {
        let piece = self.pieces.try_recv().ok();
        self.hold(piece)
    }

    fn hold(&mut self, piece: Option<Piece>) -> Option<Bytes> {
        let Piece { bytes, share } = piece?;
        self.held = Some(share);
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

/// How long the delivery of a client's last data to the container may take after the client has left.
pub const LAST_INPUT: Duration = Duration::from_secs(10);
/// The largest number of bytes passed on at once. 1,000 connections with such a buffer need 16 MiB.
pub const LARGEST_PIECE: usize = 16 << 10;
/// One piece on its way to the process, and one waiting.
const WINDOW: usize = 2 * (LARGEST_PIECE + COST);
/// Memory for each piece in addition to its bytes.
const COST: usize = 128;
/// Pieces of at least this size are not copied from the read buffer.
const SHARED: usize = LARGEST_PIECE / 2;

//! What a client has sent on a connection and its readers have not taken yet, in pieces. SPDY and WebSocket
//! share it.
//!
//! A connection whose window is full is not read any more. No reader waits for another connection's.

use std::{io, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

use crate::telemetry::metric::Gauge;

/// How much of a connection may wait for its readers. Clones share it.
#[derive(Clone, Debug)]
pub struct Window {
    room: Arc<Semaphore>,
    /// Bytes that wait, of all connections.
    waiting: Gauge,
}

/// Where the pieces of one stream are put.
#[derive(Clone, Debug)]
pub struct Inlet {
    pieces: mpsc::UnboundedSender<Piece>,
    window: Window,
}

/// Reads one stream. Dropped, what still comes is discarded.
#[derive(Debug)]
pub struct Inbox {
    pieces: mpsc::UnboundedReceiver<Piece>,
    /// The share of the last bytes, until others are asked for.
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
    /// Of a new connection. What waits is added to the gauge.
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
    /// Waits for room in the window. Returns false if there is no reader any more.
    pub async fn put(&self, bytes: Bytes) -> bool {
        let cost = u32::try_from(bytes.len() + COST).unwrap_or(u32::MAX);
        let room = tokio::select! {
            room = Arc::clone(&self.window.room).acquire_many_owned(cost) => room.ok(),
            () = self.pieces.closed() => None,
        };
        let Some(room) = room else { return false };
        let share = Share::new(room, self.window.waiting.clone());
        // A small piece must not keep the buffer it was read into.
        let bytes = if bytes.len() < SHARED { Bytes::copy_from_slice(&bytes) } else { bytes };
        self.pieces.send(Piece { bytes, share }).is_ok()
    }
}

impl Inbox {
    /// The next bytes, never empty and at most [`LARGEST_PIECE`]; none at the end. Cancel-safe. The bytes
    /// before them leave the window.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.held = None;
        let piece = self.pieces.recv().await;
        self.hold(piece)
    }

    /// The same if they are here already.
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

/// Reads from a client into `input`. Returns whether anything came.
///
/// # Errors
/// The connection broke.
pub async fn read(from: &mut (impl AsyncRead + Unpin), input: &mut BytesMut) -> io::Result<bool> {
    if input.capacity() - input.len() < SHARED {
        input.reserve(LARGEST_PIECE);
    }
    Ok(from.read_buf(input).await? > 0)
}

/// How long what a client sent before it left may take to reach the container.
pub const LAST_INPUT: Duration = Duration::from_secs(10);
/// Bytes that are handed on at once. With 1,000 connections each buffer of this size takes 16 MiB.
pub const LARGEST_PIECE: usize = 16 << 10;
/// One piece on its way to the process, and one behind it.
const WINDOW: usize = 2 * (LARGEST_PIECE + COST);
/// What keeping a piece costs beside its bytes.
const COST: usize = 128;
/// Pieces from this size on share the buffer they were read into.
const SHARED: usize = LARGEST_PIECE / 2;

//! The interface for users of a stream: the peer offers a stream, and the user accepts, reads and writes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    control_frames::{ControlFrame, ControlQueue},
    frame::ResetReason,
    header::Headers,
    limits::StreamPlace,
};
use crate::streaming::inbox::{Inbox, LARGEST_PIECE};

/// A stream that the peer wants to open. Dropping this value refuses the stream.
#[derive(Debug)]
pub struct OfferedStream {
    headers: Headers,
    stream: (Receiver, Sender),
}

impl OfferedStream {
    pub(super) fn new(
        headers: Headers,
        handle: SharedStream,
        inbox: Inbox,
        outbox: mpsc::Sender<Outgoing>,
    ) -> Self {
        let handle = Arc::new(handle);
        let receiver = Receiver { handle: Arc::clone(&handle), inbox };
        Self { headers, stream: (receiver, Sender { handle, outbox }) }
    }

    /// The stream's id, which the peer has chosen: odd, and higher than the ids of earlier streams.
    pub fn id(&self) -> u32 {
        self.stream.1.handle.id
    }

    /// The first value of a header. Ignores the case of the header's name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.first(name)
    }

    /// Accepts the stream, and tells the peer unless the stream has already ended.
    pub fn accept(self) -> (Receiver, Sender) {
        let handle = &self.stream.1.handle;
        if !handle.life.has_ended() {
            handle.life.accepted.store(true, Ordering::Release);
            handle.put(ControlFrame::Reply(handle.id));
        }
        self.stream
    }
}

/// Receives data from the peer. After this value is dropped, dockbridge discards the peer's further data.
#[derive(Debug)]
pub struct Receiver {
    handle: Arc<SharedStream>,
    inbox: Inbox,
}

impl Receiver {
    /// The next bytes, as [`Inbox::next`] returns them. After either side's reset, `None` follows the buffered bytes.
    pub async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            biased;
            bytes = self.inbox.next() => bytes,
            () = self.handle.life.reset() => self.inbox.next_now(),
        }
    }
}

/// Sends data to the peer. If both sender and receiver are dropped without [`Sender::finish`], dockbridge resets the
/// stream, which tells the peer that the stream broke. But if dockbridge has sent nothing on the stream and the peer
/// has ended its direction, dockbridge ends the stream normally.
#[derive(Debug)]
pub struct Sender {
    handle: Arc<SharedStream>,
    outbox: mpsc::Sender<Outgoing>,
}

impl Sender {
    /// Sends bytes in frames of at most 16 KiB. Waits for room. A dropped future may have sent some frames.
    ///
    /// # Errors
    /// Fails after [`Sender::finish`] or a reset, or if the connection has ended.
    pub async fn send(&mut self, mut bytes: Bytes) -> Result<(), Gone> {
        while !bytes.is_empty() {
            let frame = bytes.split_to(bytes.len().min(LARGEST_PIECE));
            self.put(frame, false).await?;
        }
        Ok(())
    }

    /// Closes the sending direction. The peer may continue to send.
    pub async fn finish(&mut self) -> Result<(), Gone> {
        self.put(Bytes::new(), true).await
    }

    /// Resets the stream and discards data that was not yet written to the peer, unless both directions have ended.
    pub fn reset(&mut self) {
        self.handle.reset(ResetReason::Cancel);
    }

    /// Resolves once the stream was reset or the connection has ended, so that no more data can be sent.
    pub async fn closed(&self) {
        self.handle.life.gone.cancelled().await;
    }

    async fn put(&self, bytes: Bytes, last: bool) -> Result<(), Gone> {
        let life = &self.handle.life;
        if life.sent_last.load(Ordering::Acquire) {
            return Err(Gone);
        }
        let place = tokio::select! {
            biased;
            () = life.gone.cancelled() => return Err(Gone),
            place = self.outbox.reserve() => place.map_err(|_| Gone)?,
        };
        self.handle.used.store(true, Ordering::Release);
        if last {
            life.sent_last.store(true, Ordering::Release);
        }
        place.send(Outgoing { id: self.handle.id, life: Arc::clone(life), bytes, last });
        Ok(())
    }
}

/// Nothing more can be sent: dockbridge has finished the stream, the stream was reset, or the connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream has ended, or the client has disconnected")]
pub struct Gone;

#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) id: u32,
    pub(super) life: Arc<StreamState>,
    pub(super) bytes: Bytes,
    pub(super) last: bool,
}

/// The progress of a stream, which the connection and the stream's users share.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    pub(super) accepted: AtomicBool,
    pub(super) received_last: AtomicBool,
    pub(super) sent_last: AtomicBool,
    /// Whether dockbridge has reset the stream, so that queued data must not be written.
    pub(super) aborted: AtomicBool,
    /// Cancelled once either side has reset the stream, or the connection has ended.
    pub(super) gone: CancellationToken,
}

impl StreamState {
    pub(super) fn end(&self) {
        self.received_last.store(true, Ordering::Release);
        self.sent_last.store(true, Ordering::Release);
        self.gone.cancel();
    }

    /// Resolves once the stream was reset. Also resolves when the connection ends, but not if a direction of the stream
    /// is still open then.
    pub(super) async fn reset(&self) {
        self.gone.cancelled().await;
        if !self.has_ended() {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.received_last.load(Ordering::Acquire) && self.sent_last.load(Ordering::Acquire)
    }
}

/// The part of a stream that its sender and receiver share. When sender and receiver are dropped, the stream ends.
#[derive(Debug)]
pub(super) struct SharedStream {
    id: u32,
    life: Arc<StreamState>,
    used: AtomicBool,
    control: ControlQueue,
    place: Arc<StreamPlace>,
}

impl SharedStream {
    pub(super) fn new(
        id: u32,
        life: Arc<StreamState>,
        control: ControlQueue,
        place: StreamPlace,
    ) -> Self {
        Self { id, life, used: AtomicBool::new(false), control, place: Arc::new(place) }
    }

    fn put(&self, frame: ControlFrame) {
        self.control.put(frame, &self.place);
    }

    fn reset(&self, status: ResetReason) {
        if self.life.has_ended() || self.life.aborted.swap(true, Ordering::AcqRel) {
            return;
        }
        self.life.end();
        self.put(ControlFrame::Reset(self.id, status));
    }
}

impl Drop for SharedStream {
    fn drop(&mut self) {
        if !self.life.accepted.load(Ordering::Acquire) {
            return self.reset(ResetReason::Refused);
        }
        if self.life.sent_last.load(Ordering::Acquire) {
            // A reset could overtake data that is still queued, so this branch only discards further data of the peer.
            return self.life.end();
        }
        let quiet = !self.used.load(Ordering::Acquire);
        if quiet && self.life.received_last.load(Ordering::Acquire) {
            self.life.sent_last.store(true, Ordering::Release);
            self.put(ControlFrame::End(self.id));
        } else {
            self.reset(ResetReason::Cancel);
        }
    }
}

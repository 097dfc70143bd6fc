//! A stream for its users: offered by the peer, accepted, read and written.

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

/// A stream that the peer wants to open. Dropping it refuses the stream.
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

    /// The peer's id of the stream: odd, and higher than earlier ones.
    pub fn id(&self) -> u32 {
        self.stream.1.handle.id
    }

    /// The first value of a header, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.first(name)
    }

    /// Accepts the stream.
    pub fn accept(self) -> (Receiver, Sender) {
        let handle = &self.stream.1.handle;
        if !handle.life.has_ended() {
            handle.life.accepted.store(true, Ordering::Release);
            handle.control.put(ControlFrame::Reply(handle.id));
        }
        self.stream
    }
}

/// Receives data from the peer. After a drop, further data is discarded.
#[derive(Debug)]
pub struct Receiver {
    handle: Arc<SharedStream>,
    inbox: Inbox,
}

impl Receiver {
    /// As [`Inbox::next`]. Also ends if either side resets the stream.
    pub async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            biased;
            bytes = self.inbox.next() => bytes,
            () = self.handle.life.reset() => self.inbox.next_now(),
        }
    }
}

/// Sends data to the peer. If it is dropped without [`Sender::finish`], the stream is reset when the
/// receiver is also dropped. This tells the peer that the stream broke, or, if nothing was to be sent, that
/// it ended.
#[derive(Debug)]
pub struct Sender {
    handle: Arc<SharedStream>,
    outbox: mpsc::Sender<Outgoing>,
}

impl Sender {
    /// Sends bytes in frames of at most 16 KiB. Waits for room. If this is dropped while it waits, some of
    /// the frames may have been sent.
    ///
    /// # Errors
    /// The stream was finished or reset, or the connection has ended.
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

    /// Resets the stream in both directions. Data that was not written yet is discarded. If the stream has
    /// already ended, this does nothing.
    pub fn reset(&mut self) {
        self.handle.reset(ResetReason::Cancel);
    }

    /// Resolves when nothing more can be sent, because of a reset or the end of the connection.
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

/// The stream was reset, or the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client has disconnected")]
pub struct Gone;

#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) id: u32,
    pub(super) life: Arc<StreamState>,
    pub(super) bytes: Bytes,
    pub(super) last: bool,
}

/// The progress of a stream, shared by the connection and the stream's users.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    /// The peer knows that the stream was accepted.
    pub(super) accepted: AtomicBool,
    /// The peer sends nothing more.
    pub(super) received_last: AtomicBool,
    /// dockbridge sends nothing more.
    pub(super) sent_last: AtomicBool,
    /// dockbridge has reset it, so queued data must not be written.
    pub(super) aborted: AtomicBool,
    /// Either side has reset it, or the connection has ended.
    pub(super) gone: CancellationToken,
}

impl StreamState {
    pub(super) fn end(&self) {
        self.received_last.store(true, Ordering::Release);
        self.sent_last.store(true, Ordering::Release);
        self.gone.cancel();
    }

    /// Resolves when the stream was reset, but not when only the connection has ended.
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

/// Shared by both halves of a stream. When the last half is dropped, the stream is reset.
#[derive(Debug)]
pub(super) struct SharedStream {
    id: u32,
    life: Arc<StreamState>,
    used: AtomicBool,
    control: ControlQueue,
    _place: StreamPlace,
}

impl SharedStream {
    pub(super) fn new(
        id: u32,
        life: Arc<StreamState>,
        control: ControlQueue,
        place: StreamPlace,
    ) -> Self {
        Self { id, life, used: AtomicBool::new(false), control, _place: place }
    }

    fn reset(&self, status: ResetReason) {
        if self.life.has_ended() || self.life.aborted.swap(true, Ordering::AcqRel) {
            return;
        }
        self.life.end();
        self.control.put(ControlFrame::Reset(self.id, status));
    }
}

impl Drop for SharedStream {
    fn drop(&mut self) {
        if !self.life.accepted.load(Ordering::Acquire) {
            return self.reset(ResetReason::Refused);
        }
        if self.life.sent_last.load(Ordering::Acquire) {
            // No reset here: it could overtake the data before the end. Further data is discarded.
            return self.life.end();
        }
        let quiet = !self.used.load(Ordering::Acquire);
        if quiet && self.life.received_last.load(Ordering::Acquire) {
            self.life.sent_last.store(true, Ordering::Release);
            self.control.put(ControlFrame::End(self.id));
        } else {
            self.reset(ResetReason::Cancel);
        }
    }
}

//! Control frames that wait to be written. They come from users of streams, which cannot wait, and from the
//! reading side, which waits if the peer does not read its answers.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::frame::ResetReason;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ControlFrame {
    Reply(u32),
    /// The stream has failed, or never began.
    Reset(u32, ResetReason),
    /// dockbridge sends nothing on this stream and never did.
    End(u32),
    /// An echo for the peer, or a ping from dockbridge.
    Ping(u32),
    /// An empty data frame. It has no effect, and sending it shows whether the peer still exists.
    Probe(u32),
}

/// Where frames are put. Clones share the queue.
#[derive(Clone, Debug)]
pub(super) struct ControlQueue {
    frames: mpsc::UnboundedSender<Queued>,
    answers: Arc<Semaphore>,
}

/// A frame that waits. An answer to the peer also has one of a limited number of places.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) frame: ControlFrame,
    _place: Option<OwnedSemaphorePermit>,
}

impl ControlQueue {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Queued>) {
        let (frames, waiting) = mpsc::unbounded_channel();
        (Self { frames, answers: Arc::new(Semaphore::new(MAX_ANSWERS)) }, waiting)
    }

    pub(super) fn put(&self, frame: ControlFrame) {
        // Without a connection, there is nobody to notify.
        let _ = self.frames.send(Queued { frame, _place: None });
    }

    /// Waits while more answers than the peer can have good reason for are not written.
    pub(super) async fn answer(&self, frame: ControlFrame) {
        let place = Arc::clone(&self.answers).acquire_owned().await;
        let _ = self.frames.send(Queued { frame, _place: place.ok() });
    }
}

/// If more answers are queued, the reading side waits.
const MAX_ANSWERS: usize = 512;

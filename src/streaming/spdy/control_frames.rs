//! Control frames that wait to be written. Too many queued answers to the peer make the reading side wait.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{frame::ResetReason, limits::StreamPlace};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ControlFrame {
    Reply(u32),
    /// Resets a stream that dockbridge refuses, or ends early.
    Reset(u32, ResetReason),
    /// Ends a stream on which dockbridge has sent nothing.
    End(u32),
    /// The echo of the peer's ping, or a ping of dockbridge.
    Ping(u32),
    /// An empty data frame without effect, which shows whether the peer is still connected.
    Probe(u32),
}

/// Adds control frames to the queue. Clones share the queue.
#[derive(Clone, Debug)]
pub(super) struct ControlQueue {
    frames: mpsc::UnboundedSender<Queued>,
    answers: Arc<Semaphore>,
}

/// A control frame in the queue. Answers to the peer and probes hold a permit, because they are limited. A frame of a
/// stream holds the stream's place, because otherwise the queue could grow without limit if a peer never reads.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) frame: ControlFrame,
    _answer: Option<OwnedSemaphorePermit>,
    _stream: Option<Arc<StreamPlace>>,
}

impl ControlQueue {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Queued>) {
        let (frames, waiting) = mpsc::unbounded_channel();
        (Self { frames, answers: Arc::new(Semaphore::new(MAX_ANSWERS)) }, waiting)
    }

    pub(super) fn put(&self, frame: ControlFrame, stream: &Arc<StreamPlace>) {
        // `send` fails if the connection has ended, and then the frame is not needed.
        let _ =
            self.frames.send(Queued { frame, _answer: None, _stream: Some(Arc::clone(stream)) });
    }

    /// Queues a frame that shows whether the peer is still connected, unless [`MAX_ANSWERS`] answers and probes are
    /// already in the queue.
    pub(super) fn probe(&self, frame: ControlFrame) {
        if let Ok(permit) = Arc::clone(&self.answers).try_acquire_owned() {
            let _ = self.frames.send(Queued { frame, _answer: Some(permit), _stream: None });
        }
    }

    /// Queues an answer to the peer. Waits while [`MAX_ANSWERS`] answers and probes are in the queue.
    pub(super) async fn answer(&self, frame: ControlFrame) {
        let permit = Arc::clone(&self.answers).acquire_owned().await;
        let _ = self.frames.send(Queued { frame, _answer: permit.ok(), _stream: None });
    }
}

/// Maximum number of queued answers and probes: more than a correct peer causes.
const MAX_ANSWERS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_of_a_peer_that_does_not_read_are_limited() {
        let (queue, waiting) = ControlQueue::new();
        for _ in 0..=MAX_ANSWERS {
            queue.probe(ControlFrame::Probe(1));
        }
        assert_eq!(waiting.len(), MAX_ANSWERS);
    }
}

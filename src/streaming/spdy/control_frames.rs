//! Control frames that wait to be written. They come from users of streams, which cannot wait, and from the
//! reading side, which waits if the peer does not read its answers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{Notify, mpsc};

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
    queue: mpsc::UnboundedSender<ControlFrame>,
    backlog: Arc<Backlog>,
}

/// The writing side takes frames from here.
#[derive(Debug)]
pub(super) struct ControlReceiver {
    queue: mpsc::UnboundedReceiver<ControlFrame>,
    backlog: Arc<Backlog>,
}

#[derive(Debug, Default)]
struct Backlog {
    length: AtomicUsize,
    shorter: Notify,
}

impl ControlQueue {
    pub(super) fn new() -> (Self, ControlReceiver) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let backlog = Arc::<Backlog>::default();
        (
            Self { queue: sender, backlog: Arc::clone(&backlog) },
            ControlReceiver { queue: receiver, backlog },
        )
    }

    pub(super) fn put(&self, frame: ControlFrame) {
        self.backlog.length.fetch_add(1, Ordering::AcqRel);
        // Without a connection, there is nobody to notify.
        let _ = self.queue.send(frame);
    }

    /// Waits while more frames than the peer can have good reason for are not written.
    pub(super) async fn room(&self) {
        while self.backlog.length.load(Ordering::Acquire) >= MAX_BACKLOG {
            self.backlog.shorter.notified().await;
        }
    }
}

impl ControlReceiver {
    /// The next frame. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<ControlFrame> {
        let frame = self.queue.recv().await;
        self.taken(frame)
    }

    /// The next frame, if there is one.
    pub(super) fn next_now(&mut self) -> Option<ControlFrame> {
        let frame = self.queue.try_recv().ok();
        self.taken(frame)
    }

    fn taken(&self, frame: Option<ControlFrame>) -> Option<ControlFrame> {
        if frame.is_some() && self.backlog.length.fetch_sub(1, Ordering::AcqRel) == MAX_BACKLOG {
            self.backlog.shorter.notify_one();
        }
        frame
    }
}

/// If more frames are queued, the reading side waits.
const MAX_BACKLOG: usize = 512;

//! What a peer may make us hold in memory.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Counts the streams of a connection that somebody holds, even if the peer has reset them.
#[derive(Debug)]
pub(super) struct StreamCount {
    held: Arc<()>,
    shared: &'static Semaphore,
}

/// The place of one stream. Dropped, it is free again.
#[derive(Debug)]
pub(super) struct StreamPlace {
    _held: Arc<()>,
    _shared: Option<SemaphorePermit<'static>>,
}

impl StreamCount {
    /// For a new connection. Streams beyond [`OWN_STREAMS`] take a permit of `shared`.
    pub(super) fn new(shared: &'static Semaphore) -> Self {
        Self { held: Arc::default(), shared }
    }

    /// A place for one more stream; none if too many are taken.
    pub(super) fn place(&self) -> Option<StreamPlace> {
        let shared = match Arc::strong_count(&self.held) - 1 {
            ..OWN_STREAMS => None,
            OWN_STREAMS..STREAMS => Some(self.shared.try_acquire().ok()?),
            _ => return None,
        };
        Some(StreamPlace { _held: Arc::clone(&self.held), _shared: shared })
    }
}

/// Bytes of a header block, inflated. A longer one ends the connection. Kubernetes' have about 100.
pub(super) const HEADER_BYTES: usize = 1024;
/// Headers of a block. More end the connection.
pub(super) const HEADERS: u32 = 100;
/// Streams of a connection that are open at once. One more is refused.
pub(super) const STREAMS: usize = 1000;
/// Those that each connection can have whatever others do.
const OWN_STREAMS: usize = 16;
/// Streams beyond those, of all connections: each takes a few KiB.
pub(super) static SHARED_STREAMS: Semaphore = Semaphore::const_new(8192);

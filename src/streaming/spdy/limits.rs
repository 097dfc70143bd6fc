//! How much memory a peer can make dockbridge use.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Counts the streams of a connection that are still in use, even if the peer has reset them.
#[derive(Debug)]
pub(super) struct StreamCount {
    held: Arc<()>,
    shared: &'static Semaphore,
}

/// The place of one stream. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct StreamPlace {
    _held: Arc<()>,
    _shared: Option<SemaphorePermit<'static>>,
}

impl StreamCount {
    /// For a new connection. Streams beyond [`OWN_STREAMS`] need a permit of `shared`.
    pub(super) fn new(shared: &'static Semaphore) -> Self {
        Self { held: Arc::default(), shared }
    }

    /// A place for one more stream. None if the limit is reached.
    pub(super) fn place(&self) -> Option<StreamPlace> {
        let shared = match Arc::strong_count(&self.held) - 1 {
            ..OWN_STREAMS => None,
            OWN_STREAMS..STREAMS => Some(self.shared.try_acquire().ok()?),
            _ => return None,
        };
        Some(StreamPlace { _held: Arc::clone(&self.held), _shared: shared })
    }
}

/// Maximum size of a decompressed header block in bytes. A longer one ends the connection. Kubernetes
/// sends about 100 bytes.
pub(super) const HEADER_BYTES: usize = 1024;
/// Maximum number of headers in a block. More end the connection.
pub(super) const HEADERS: u32 = 100;
/// Maximum number of open streams of a connection. Further ones are refused.
pub(super) const STREAMS: usize = 1000;
/// How many of them each connection can always have.
const OWN_STREAMS: usize = 16;
/// Further streams of all connections. Each needs a few KiB.
pub(super) static SHARED_STREAMS: Semaphore = Semaphore::const_new(8192);

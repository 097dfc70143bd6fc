//! Limits for the memory that dockbridge uses for a peer.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Counts the streams of a connection that dockbridge still uses, even if the peer has reset them.
#[derive(Debug)]
pub(super) struct StreamCount {
    held: Arc<()>,
    shared: &'static Semaphore,
}

/// One stream counts against the limits as long as this value exists: until both halves of the stream are
/// dropped and its control frames have left the queue.
#[derive(Debug)]
pub(super) struct StreamPlace {
    _held: Arc<()>,
    _shared: Option<SemaphorePermit<'static>>,
}

impl StreamCount {
    /// Creates a count of zero streams, for a new connection. Streams beyond [`OWN_STREAMS`] need a permit of `shared`.
    pub(super) fn new(shared: &'static Semaphore) -> Self {
        Self { held: Arc::default(), shared }
    }

    /// Counts a new stream. Returns `None` if a limit for streams is reached.
    pub(super) fn place(&self) -> Option<StreamPlace> {
        let shared = match Arc::strong_count(&self.held) - 1 {
            ..OWN_STREAMS => None,
            OWN_STREAMS..STREAMS => Some(self.shared.try_acquire().ok()?),
            _ => return None,
        };
        Some(StreamPlace { _held: Arc::clone(&self.held), _shared: shared })
    }
}

/// Largest decompressed header block in bytes. A longer block ends the connection. Clients send about 100 bytes.
pub(super) const HEADER_BYTES: usize = 1024;
/// Maximum number of headers in a block. A block with more headers ends the connection.
pub(super) const HEADERS: u32 = 100;
/// Maximum number of open streams of a connection. dockbridge refuses further streams.
pub(super) const STREAMS: usize = 1000;
/// Number of streams that each connection can always have.
const OWN_STREAMS: usize = 16;
/// Permits for further streams of all connections together. Each stream needs a few KiB.
pub(super) static SHARED_STREAMS: Semaphore = Semaphore::const_new(8192);

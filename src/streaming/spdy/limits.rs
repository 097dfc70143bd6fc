//! Limits for the memory that dockbridge uses for SPDY connections.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Counts a connection's streams that dockbridge still uses, also streams that the peer has reset.
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

/// Largest decompressed header block in bytes. A longer header block ends the connection.
pub(super) const HEADER_BYTES: usize = 1024;
/// Maximum number of headers in a header block. A header block with more headers ends the connection.
pub(super) const HEADERS: u32 = 100;
/// Maximum number of streams that a connection has at once. dockbridge refuses streams beyond this number.
pub(super) const STREAMS: usize = 1000;
/// Number of streams that a connection can have without permits of [`SHARED_STREAMS`].
const OWN_STREAMS: usize = 16;
/// Permits that all connections share, for their streams beyond [`OWN_STREAMS`]. Each stream needs a few KiB.
pub(super) static SHARED_STREAMS: Semaphore = Semaphore::const_new(8192);

//! What a peer may make us hold in memory.

use tokio::sync::Semaphore;

/// Bytes of a header block, inflated. A longer one ends the connection. Kubernetes' have about 100.
pub(super) const HEADER_BYTES: usize = 1024;
/// Headers of a block. More end the connection.
pub(super) const HEADERS: usize = 100;
/// Streams of a connection that are open at once. One more is refused.
pub(super) const STREAMS: usize = 1000;
/// Those that each connection can have whatever others do.
pub(super) const OWN_STREAMS: usize = 16;
/// Streams beyond those, of all connections: each takes a few KiB.
pub(super) static SHARED_STREAMS: Semaphore = Semaphore::const_new(8192);

//! What a peer may make us hold in memory.

/// What a peer may make us hold. Going beyond the first two ends the connection; a stream too
/// many is refused; readers that lag make the connection stop reading.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a header block, inflated.
    pub header_bytes: usize,
    pub headers: usize,
    pub streams: usize,
    /// Bytes that the reader of one stream is not done with.
    pub queued_per_stream: usize,
    /// Bytes that the readers of all streams are not done with.
    pub queued: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: 8 * 1024,
            headers: 100,
            streams: 1000,
            queued_per_stream: 1024 * 1024,
            queued: 4 * 1024 * 1024,
        }
    }
}

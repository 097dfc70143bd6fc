//! What a peer can do wrong. Any of it ends the connection: its state cannot be trusted after.

use super::limits::{HEADER_BYTES, HEADERS};

/// The peer broke the protocol, or a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("control frame of version {0}")]
    Version(u16),
    /// A frame whose length contradicts its kind.
    #[error("{kind} frame of {length} bytes")]
    Length {
        /// Its name in the specification.
        kind: &'static str,
        /// Its length without the first eight bytes.
        length: usize,
    },
    /// Stream 0, one of ours, or one at or below an earlier one.
    #[error("stream {0} cannot be opened")]
    Stream(u32),
    #[error("header block cannot be inflated")]
    Compression,
    #[error("header block is longer than {HEADER_BYTES} bytes")]
    HeaderBytes,
    #[error("header block has more than {HEADERS} headers")]
    HeaderCount,
    /// A header that the specification does not allow.
    #[error("header block: {0}")]
    Header(&'static str),
}

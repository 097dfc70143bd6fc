//! Protocol errors of a peer. Each ends the connection, because its state can no longer be trusted.

use super::limits::{HEADER_BYTES, HEADERS};

/// The peer violated the protocol or a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("control frame of version {0}")]
    Version(u16),
    /// A frame whose length does not match its type.
    #[error("{kind} frame of {length} bytes")]
    Length { kind: &'static str, length: usize },
    /// The id is 0, is one of the server's, or is not higher than earlier ids.
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

//! One entry of a container's log, and the engine's line of JSON that holds it.

use crate::model::stream::Source;

/// An entry: at most one line, at most about 16 KiB of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// RFC 3339 with up to nine digits of a second, as the engine wrote it.
    pub time: &'a str,
    /// Where the container wrote it.
    pub stream: Source,
    /// What it wrote; ends in a newline unless the line goes on in the next entry.
    pub content: &'a [u8],
}

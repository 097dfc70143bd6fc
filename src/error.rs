//! The list of failure kinds; every error of a module has one of them.
//!
//! Policy: a module has its own small error enum, with ids and paths as fields, and a `kind()`.
//! Nothing below `rpc` knows gRPC; `rpc::status` turns a [`Kind`] into the gRPC code of the same name,
//! once, with the whole [`chain`] of causes as its message.

use std::error::Error;

/// The kind of a failure: what the caller can do next.
///
/// The names follow gRPC's codes because kubelet branches on exactly these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request itself is wrong; repeating it cannot help.
    InvalidArgument,
    /// The named object does not exist.
    NotFound,
    /// The name or identity is taken by something that is not the same object.
    AlreadyExists,
    /// The object exists but is in the wrong state for this.
    FailedPrecondition,
    /// A limit (tokens, message size, memory) is reached.
    ResourceExhausted,
    /// Docker, or another party, cannot be reached now; try again.
    Unavailable,
    DeadlineExceeded,
    Cancelled,
    /// The registry or the engine refuses this identity.
    PermissionDenied,
    /// Not built, or not expressible on this engine.
    Unimplemented,
    /// A failure whose text kubelet reads (it strips only this code from pull errors).
    Unknown,
    /// A bug, or an unexpected answer.
    Internal,
}

impl Kind {
    /// The kind as a metric label.
    pub const fn word(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::FailedPrecondition => "failed_precondition",
            Self::ResourceExhausted => "resource_exhausted",
            Self::Unavailable => "unavailable",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Cancelled => "cancelled",
            Self::PermissionDenied => "permission_denied",
            Self::Unimplemented => "unimplemented",
            Self::Unknown => "unknown",
            Self::Internal => "internal",
        }
    }
}

/// A text that others chose, of a length that a line of the log and an answer may have.
pub fn shortened(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        let end = (0..=LONGEST_TEXT).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// An error with all its causes on one line, without repetitions.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

/// gRPC carries the text in a header; peers commonly refuse headers beyond 8 to 16 KiB, and
/// percent-encoding can triple it.
const LONGEST_TEXT: usize = 2048;

#[cfg(test)]
mod tests;

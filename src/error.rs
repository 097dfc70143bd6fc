//! The kinds of errors. Every error of a module has one of them.
//!
//! The rule: each module has a small error enum, with ids and paths as fields, and a `kind()`. Errors that no
//! caller handles in its own way may share a variant with a kind and a text. Nothing below `rpc` knows gRPC.
//! Only `rpc::status` turns a [`Kind`] into the gRPC code of the same name, with the whole [`chain`] of
//! causes as its message.

use std::error::Error;

/// The kind of an error: what the caller can do next.
///
/// The names are those of gRPC's codes, because kubelet checks exactly these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request itself is wrong, and repeating it cannot help.
    InvalidArgument,
    NotFound,
    /// Another object already has the name or identity.
    AlreadyExists,
    /// The object exists, but its state does not allow this.
    FailedPrecondition,
    /// A limit (tokens, message size, memory) is reached.
    ResourceExhausted,
    /// Docker or another service cannot be reached now; try again.
    Unavailable,
    DeadlineExceeded,
    Cancelled,
    /// The registry or the engine refuses this identity.
    PermissionDenied,
    /// Not implemented, or not possible with this engine.
    Unimplemented,
    /// An error whose text kubelet reads (it strips only this code from pull errors).
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

/// A text from outside, shortened so that it fits into a log line and an answer.
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

/// gRPC carries the text in a header. Clients and servers often refuse headers larger than 8 to 16 KiB, and
/// percent-encoding can triple the size.
const LONGEST_TEXT: usize = 2048;

#[cfg(test)]
mod tests;

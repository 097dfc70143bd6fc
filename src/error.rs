//! The kinds of errors, and [`Failure`], the error of calls, which has a kind.
//!
//! An error with [`WithKind`] converts into a [`Failure`]. Only `rpc::status` turns a [`Kind`] into a gRPC code.

use std::error::Error;

/// The kind of an error, which tells a caller what it can do next.
///
/// The variants have the names of gRPC's codes, because kubelet checks these codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request is wrong, for example because a host file or profile that it names is missing or damaged.
    InvalidArgument,
    NotFound,
    /// Another object already has the name or identity, or the output file already exists.
    AlreadyExists,
    /// The state of an object, the engine or the host, or an answer of an NRI plugin, does not allow the call.
    FailedPrecondition,
    /// A limit is reached, for example of a message's size, or a disk is full.
    ResourceExhausted,
    /// Docker, another service or dockbridge itself cannot serve the call now; try again.
    Unavailable,
    DeadlineExceeded,
    Cancelled,
    /// The engine, or an authorization plugin of the engine, does not allow the call.
    PermissionDenied,
    /// The call, or a field of its request, is not implemented, or not possible on this node.
    Unimplemented,
    /// An error of another program without a better kind. kubelet strips only this code from a pull's error.
    Unknown,
    /// A bug in dockbridge, an unexpected answer of another program, or a failed system call.
    Internal,
}

impl Kind {
    /// The kind's name as the value of a metric label.
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

/// The error type of a module, which converts into a [`Failure`].
pub trait WithKind: Error {
    /// The kind, which determines the gRPC code.
    fn kind(&self) -> Kind;
}

/// Why a call failed. A failure can be cloned, because several callers may wait for one task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    kind: Kind,
    text: String,
}

impl Failure {
    /// A failure of any kind.
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// A failure of the kind [`Kind::InvalidArgument`].
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(Kind::InvalidArgument, text)
    }

    /// A failure of the kind [`Kind::FailedPrecondition`].
    pub fn unmet(text: impl Into<String>) -> Self {
        Self::new(Kind::FailedPrecondition, text)
    }

    /// A failure of the kind [`Kind::Unimplemented`]: dockbridge does not support `field`, perhaps only on this node.
    pub fn unsupported(field: &str, reason: &str) -> Self {
        Self::new(Kind::Unimplemented, format!("{field}: {reason}"))
    }

    /// A failure of the kind [`Kind::NotFound`]: dockbridge does not know `object`.
    pub fn missing(object: impl std::fmt::Display) -> Self {
        Self::new(Kind::NotFound, format!("{object} is not known to dockbridge"))
    }

    /// Puts `text` before the text of the failure, and keeps the failure's kind.
    #[must_use]
    pub fn within(self, text: impl std::fmt::Display) -> Self {
        Self { text: format!("{text}: {}", self.text), ..self }
    }

    /// The kind, which determines the gRPC code.
    pub const fn kind(&self) -> Kind {
        self.kind
    }
}

impl<E: WithKind> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { kind: error.kind(), text: chain(&error) }
    }
}

/// Shortens a text to [`LONGEST_TEXT`], so that it fits into a log line or an answer.
pub fn shortened(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        let end = (0..=LONGEST_TEXT).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The text of an error, followed by those of its causes, without repetitions and numbers such as `(os error 13)`.
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
    without_numbers(&text)
}

/// Removes numbers such as ` (os error 13)` from a text, because operators need only the words.
pub fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        words.push_str(rest.strip_prefix(')').unwrap_or(rest));
    }
    words
}

/// The size limit of [`shortened`] in bytes, without the ellipsis. gRPC sends an error's text in a header. Clients
/// and servers often refuse headers larger than 8 to 16 KiB, and percent-encoding can triple the size.
const LONGEST_TEXT: usize = 2048;

#[cfg(test)]
mod tests;

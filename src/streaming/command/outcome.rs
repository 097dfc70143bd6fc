//! The exit status of a command in each protocol version. No I/O.

use bytes::Bytes;
use serde::Serialize;

use crate::streaming::upgrade::Version;

/// The content of the error stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success. For a process: it exited with 0.
    Success,
    /// The process exited with another code.
    Exit(i32),
    /// A failure other than the process's exit code.
    Failure(String),
}

impl Outcome {
    /// The bytes for the error stream. Before v4, a success sends none.
    pub fn encode(&self, version: Version) -> Option<Bytes> {
        let bytes = if version >= Version::V4 {
            // The value has only texts and numbers, so this cannot fail.
            serde_json::to_vec(&self.status()).unwrap_or_default()
        } else {
            self.message()?.into_bytes()
        };
        Some(bytes.into())
    }

    fn message(&self) -> Option<String> {
        match self {
            Self::Success => None,
            Self::Exit(code) => {
                Some(format!("command terminated with non-zero exit code: exit code {code}"))
            }
            Self::Failure(text) => Some(format!("Internal error occurred: {text}")),
        }
    }

    fn status(&self) -> Status {
        let (reason, cause, code) = match self {
            Self::Success => (None, None, None),
            Self::Exit(code) => (
                Some("NonZeroExitCode"),
                Some(Cause { reason: Some("ExitCode"), message: code.to_string() }),
                None,
            ),
            Self::Failure(text) => (
                Some("InternalError"),
                Some(Cause { reason: None, message: text.clone() }),
                Some(500),
            ),
        };
        Status {
            metadata: Metadata {},
            status: if *self == Self::Success { "Success" } else { "Failure" },
            message: self.message(),
            reason,
            details: cause.map(|cause| Details { causes: [cause] }),
            code,
        }
    }
}

#[derive(Serialize)]
struct Status {
    metadata: Metadata,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
}

#[derive(Serialize)]
struct Metadata {}

#[derive(Serialize)]
struct Details {
    causes: [Cause; 1],
}

#[derive(Serialize)]
struct Cause {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    message: String,
}

#[cfg(test)]
mod tests;

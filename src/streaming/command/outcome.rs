//! The exit status of a command in each protocol version. No I/O.

use bytes::Bytes;
use serde_json::{Value, json};

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
        let text = if version >= Version::V4 { self.status().to_string() } else { self.message()? };
        Some(text.into())
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

    fn status(&self) -> Value {
        let message = self.message();
        match self {
            Self::Success => json!({ "metadata": {}, "status": "Success" }),
            Self::Exit(code) => json!({
                "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": message,
                "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
            }),
            Self::Failure(text) => json!({
                "metadata": {}, "status": "Failure", "reason": "InternalError", "message": message,
                "details": { "causes": [{ "message": text }] }, "code": 500,
            }),
        }
    }
}

#[cfg(test)]
mod tests;

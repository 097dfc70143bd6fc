//! Encodes the outcome of a command for the error stream, in each version of the protocol. No I/O.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::streaming::upgrade::Version;

/// The outcome of a command or an attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command exited with 0, or the attach ended without a failure.
    Success,
    /// The process exited with a code other than 0.
    Exit(i32),
    /// The command or the attach failed for another reason, or its result is unknown.
    Failure(String),
}

impl Outcome {
    /// The bytes for the error stream. `None` for a success before v4.
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

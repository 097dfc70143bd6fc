//! Errors of requests that dockbridge refuses before it does anything.

use std::fmt::Display;

use thiserror::Error;

use crate::error::{Kind, WithKind};

/// A field of a request that is invalid or not supported.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {reason}")]
pub struct ParseError {
    /// Path of the field as CRI names it, e.g. `config.mounts[2].host_path`.
    pub field: String,
    /// The reason contains no secret, and only the beginning of a long refused value.
    pub reason: String,
}

impl ParseError {
    pub(in crate::translate) fn invalid(reason: impl Into<String>) -> Self {
        Self { field: String::new(), reason: reason.into() }
    }

    pub(in crate::translate) fn unless(
        is_valid: bool,
        reason: impl Into<String>,
    ) -> Result<(), Self> {
        if is_valid { Ok(()) } else { Err(Self::invalid(reason)) }
    }

    pub(super) fn missing() -> Self {
        Self::invalid("is required")
    }
}

impl WithKind for ParseError {
    fn kind(&self) -> Kind {
        Kind::InvalidArgument
    }
}

/// Adds the field to an error. Each caller adds its own field, so the first call adds the innermost field.
pub(in crate::translate) trait At {
    fn at(self, field: impl Display) -> Self;
}

impl<T> At for Result<T, ParseError> {
    fn at(self, field: impl Display) -> Self {
        self.map_err(|mut error| {
            error.field = match error.field.as_str() {
                "" => field.to_string(),
                inner if inner.starts_with('[') => format!("{field}{inner}"),
                inner => format!("{field}.{inner}"),
            };
            error
        })
    }
}

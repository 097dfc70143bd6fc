//! Why a specification cannot be planned for this engine.

use thiserror::Error;

use crate::error::Kind;

/// A refusal before anything was changed.
#[derive(Debug, Error)]
pub enum PlanError {
    #[error("{text}")]
    Refused { kind: Kind, text: String },
    #[error(
        "cannot resolve the user's groups: the image's /etc/passwd and /etc/group are not known"
    )]
    NoAccounts,
    /// runc before 1.2 would read the number as a name.
    #[error("group {gid} is ambiguous: the image's /etc/group has another group of that name")]
    AmbiguousGroup { gid: u32 },
    /// The document could not be encoded, because a path is not UTF-8.
    #[error("the request cannot be stored in a label")]
    Document(#[from] serde_json::Error),
}

impl PlanError {
    /// A request that no engine can fulfil.
    pub const fn invalid(text: String) -> Self {
        Self::Refused { kind: Kind::InvalidArgument, text }
    }

    /// A request that this engine, or the host's configuration, cannot fulfil.
    pub(in crate::translate) const fn unmet(text: String) -> Self {
        Self::Refused { kind: Kind::FailedPrecondition, text }
    }

    /// A field that neither the Engine API nor dockbridge's OCI runtime supports here.
    pub fn unsupported(field: &str, reason: &str) -> Self {
        Self::Refused { kind: Kind::Unimplemented, text: format!("{field}: {reason}") }
    }

    /// The kind of the error.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Refused { kind, .. } => *kind,
            Self::NoAccounts => Kind::FailedPrecondition,
            Self::AmbiguousGroup { .. } | Self::Document(_) => Kind::InvalidArgument,
        }
    }
}

//! Docker's ids. An id is validated once, so that it can be used in a path or a file name.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::reference::is_digest;
use crate::error::{Kind, WithKind};

/// The error for a text that does not have the form of a Docker id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not an id: {0:?} (expected 64 lower-case hex digits, after sha256: for an image)")]
pub struct InvalidId(pub String);

impl WithKind for InvalidId {
    fn kind(&self) -> Kind {
        Kind::Internal
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $is_valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The whole id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                if $is_valid(&text) { Ok(Self(text)) } else { Err(InvalidId(text)) }
            }
        }

        impl TryFrom<&str> for $name {
            type Error = InvalidId;

            fn try_from(text: &str) -> Result<Self, InvalidId> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id! {
    /// The Docker id of a pod's pause container: 64 lowercase hexadecimal digits.
    SandboxId, is_container_id
}
id! {
    /// The Docker id of a workload container: 64 lowercase hexadecimal digits.
    ContainerId, is_container_id
}
id! {
    /// The id of an image as the engine reports it, for example `sha256:…`.
    ///
    /// With Docker's own image store, the id is the digest of the image's configuration. With containerd's image store,
    /// the id is the digest of a manifest or an index.
    ImageId, is_digest
}

fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

impl ImageId {
    /// The hexadecimal part of the id.
    pub fn hex(&self) -> &str {
        self.0.split_once(':').map_or(self.0.as_str(), |(_, hex)| hex)
    }
}

//! Versions of the CNI specification: parsing and ordering.

use std::{fmt, str::FromStr};

use serde::Deserialize;

use crate::wire::nullable::nullable;

/// A supported version of the CNI specification, as an index into [`VERSIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(usize);

impl Version {
    /// The version of a configuration that names no version.
    pub const OLDEST: Self = Self(0);
    /// The first version in which DEL gets `prevResult`.
    pub const HAS_PREVIOUS_ON_DEL: Self = Self(4);
    /// The first version with the command STATUS.
    pub const HAS_STATUS: Self = Self(6);
}

impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        VERSIONS.iter().position(|known| *known == text).map(Self).ok_or(())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERSIONS.get(self.0).copied().unwrap_or_default())
    }
}

/// Every supported version of the CNI specification, in rising order.
pub const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

#[derive(Debug, Deserialize)]
pub(super) struct VersionReply {
    #[serde(rename = "supportedVersions", default, deserialize_with = "nullable")]
    supported: Vec<String>,
}

impl VersionReply {
    pub(super) fn known(&self) -> Vec<Version> {
        self.supported.iter().filter_map(|text| text.parse().ok()).collect()
    }
}

pub(super) fn listed(versions: &[Version]) -> String {
    let names: Vec<String> = versions.iter().map(Version::to_string).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests;

//! Versions of the specification: parsing, ordering and negotiation.

use std::{fmt, str::FromStr};

use serde::Deserialize;

use crate::wire::nullable::nullable;

/// A version of the CNI specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    major: u16,
    minor: u16,
    patch: u16,
}

impl Version {
    /// The version of a configuration without `cniVersion`.
    pub const OLDEST: Self = Self::new(0, 1, 0);
    /// `prevResult` on DEL.
    pub const HAS_PREVIOUS_ON_DEL: Self = Self::new(0, 4, 0);
    /// GC and STATUS.
    pub const HAS_STATUS: Self = Self::new(1, 1, 0);
    /// Every version supported here.
    pub const KNOWN: [Self; 7] = [
        Self::OLDEST,
        Self::new(0, 2, 0),
        Self::new(0, 3, 0),
        Self::new(0, 3, 1),
        Self::HAS_PREVIOUS_ON_DEL,
        Self::new(1, 0, 0),
        Self::HAS_STATUS,
    ];

    const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }
}

impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.').map(|part| part.parse().map_err(|_| ()));
        let mut next = || parts.next().unwrap_or(Err(()));
        let version = Self::new(next()?, next()?, next()?);
        if parts.next().is_none() { Ok(version) } else { Err(()) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct VersionReply {
    #[serde(rename = "supportedVersions", default, deserialize_with = "nullable")]
    supported: Vec<String>,
}

impl VersionReply {
    pub(super) fn known(&self) -> Vec<Version> {
        let parsed = self.supported.iter().filter_map(|text| text.parse().ok());
        parsed.filter(|version| Version::KNOWN.contains(version)).collect()
    }
}

pub(super) fn listed(versions: &[Version]) -> String {
    let names: Vec<String> = versions.iter().map(Version::to_string).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests;

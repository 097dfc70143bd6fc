//! The container edits of CDI devices, where we read their specifications instead of the engine.

use super::container::{Device, Mount};

/// Everything the named devices add to a container, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct CdiEdits {
    /// Environment; it wins over the caller's own.
    pub env: Vec<(String, String)>,
    /// Device nodes.
    pub devices: Vec<Device>,
    /// Bind mounts of things that exist.
    pub mounts: Vec<CdiMount>,
    /// Groups added to the process.
    pub groups: Vec<u32>,
}

/// One bind mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct CdiMount {
    /// What is mounted where.
    pub mount: Mount,
    /// What is mounted below the source on the host is not mounted.
    pub non_recursive: bool,
}

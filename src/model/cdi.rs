//! What CDI devices come to when their specification is read by us instead of the engine.

use super::container::{Device, Mount};

/// Everything the named devices add to a container, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CdiEdits {
    /// Environment, after the caller's own.
    pub env: Vec<(String, String)>,
    /// Device nodes.
    pub devices: Vec<Device>,
    /// Bind mounts.
    pub mounts: Vec<Mount>,
    /// Groups added to the process.
    pub groups: Vec<u32>,
}

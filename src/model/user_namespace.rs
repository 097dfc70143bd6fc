//! User namespaces: which ids of a pod are which ids of the host.

use serde::{Deserialize, Serialize};

/// The users and groups of a pod with a user namespace of its own, as kubelet maps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMappings {
    pub uids: IdMapping,
    pub gids: IdMapping,
}

/// `IDMapping` of CRI with the one start that Kubernetes uses: id 0 of the container is `host` on the
/// host, id 1 is `host + 1`, and so on for `length` ids. The length is never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMapping {
    /// First id on the host.
    pub host: u32,
    /// Number of ids.
    pub length: u32,
}

impl IdMapping {
    /// A line of `/proc/<pid>/uid_map`.
    pub fn line(self) -> String {
        format!("0 {} {}\n", self.host, self.length)
    }
}

//! User namespaces: how ids in a pod map to ids on the host.

use serde::{Deserialize, Serialize};

/// The users and groups of a pod that has its own user namespace, as kubelet maps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMappings {
    pub uids: IdMapping,
    pub gids: IdMapping,
}

/// `IDMapping` of CRI with the only start that Kubernetes uses: id 0 in the container is `host` on the
/// host, id 1 is `host + 1`, and so on for `length` ids. The length is never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMapping {
    pub host: u32,
    pub length: u32,
}

impl IdMapping {
    /// A line of `/proc/<pid>/uid_map`.
    pub fn line(self) -> String {
        format!("0 {} {}\n", self.host, self.length)
    }
}

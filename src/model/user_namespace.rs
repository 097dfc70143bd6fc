//! User namespaces: how ids in a pod map to ids on the host.

use serde::{Deserialize, Serialize};

/// How kubelet maps the user and group ids of a pod that has its own user namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMappings {
    pub uids: IdMapping,
    pub gids: IdMapping,
}

/// `IDMapping` of CRI that starts at id 0, as all mappings of Kubernetes do: id 0 in the container is `host`
/// on the host, id 1 is `host + 1`, and so on for `length` ids. `length` is never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMapping {
    pub host: u32,
    pub length: u32,
}

impl IdMapping {
    /// The mapping as a line of `/proc/<pid>/uid_map`.
    pub fn line(self) -> String {
        format!("0 {} {}\n", self.host, self.length)
    }
}

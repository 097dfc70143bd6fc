//! The container edits of CDI devices, where we read their specifications instead of the engine.

use super::{
    container::{Device, Mount, Propagation},
    oci_changes::OciChanges,
};

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
    /// What our OCI runtime has to do.
    pub changes: OciChanges,
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

impl CdiMount {
    /// Applies an option of `mount(8)`; false for those that the Engine API has no field for.
    pub fn apply(&mut self, option: &str) -> bool {
        let mount = &mut self.mount;
        match option {
            "ro" => mount.readonly = true,
            "rro" => (mount.readonly, mount.recursive_read_only) = (true, true),
            "rw" => (mount.readonly, mount.recursive_read_only) = (false, false),
            "bind" => self.non_recursive = true,
            "rbind" => self.non_recursive = false,
            "private" | "rprivate" => mount.propagation = Propagation::Private,
            "slave" | "rslave" => mount.propagation = Propagation::HostToContainer,
            "shared" | "rshared" => mount.propagation = Propagation::Bidirectional,
            // The default of a bind.
            "defaults" | "suid" | "dev" | "exec" => {}
            _ => return false,
        }
        true
    }
}

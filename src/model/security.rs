//! User, groups and privileges of a process, as in CRI.

use serde::{Deserialize, Serialize};

/// User and groups of a process at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    pub user: RunAs,
    /// Primary group. Only valid with a user (CRI refuses it alone).
    pub group: Option<i64>,
    pub supplemental_groups: Vec<i64>,
    /// Whether the groups that the image's `/etc/group` lists for the user are added.
    pub groups_policy: GroupsPolicy,
}

/// The requested user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunAs {
    #[default]
    Image,
    Uid(i64),
    /// A user name that must exist in the image.
    Name(String),
}

/// `SupplementalGroupsPolicy` of CRI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupsPolicy {
    /// The user's groups in the image are added.
    #[default]
    Merge,
    /// Only the requested groups.
    Strict,
}

/// A seccomp or AppArmor profile, `SecurityProfile` of CRI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Profile {
    RuntimeDefault,
    Unconfined,
    /// A profile of this host: a file path (seccomp) or the name of a loaded profile (AppArmor).
    Localhost(String),
}

/// `SELinuxOption` of CRI; empty means "not set".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SelinuxLabel {
    pub user: String,
    pub role: String,
    pub kind: String,
    pub level: String,
}

/// Capabilities to add and drop, in upper case without the `CAP_` prefix. `ALL` is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Added to the engine's default set.
    pub add: Vec<String>,
    /// Removed from the engine's default set.
    pub drop: Vec<String>,
    /// Ambient capabilities, which programs of a non-root user keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ambient: Vec<String>,
}

/// All security settings that a container may request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerSecurity {
    pub identity: Identity,
    /// All capabilities and all devices, without confinement.
    pub privileged: bool,
    pub readonly_rootfs: bool,
    /// Set-uid programs do not give the process more privileges.
    pub no_new_privs: bool,
    pub capabilities: Capabilities,
    /// Paths hidden from the container. CRI's list is complete: an empty list hides nothing.
    pub masked_paths: Vec<String>,
    /// Paths made read-only. This list is also complete.
    pub readonly_paths: Vec<String>,
    /// Seccomp profile; none means unconfined.
    pub seccomp: Option<Profile>,
    /// AppArmor profile; none means the engine's default.
    pub apparmor: Option<Profile>,
    /// SELinux label; none lets the engine choose.
    pub selinux: Option<SelinuxLabel>,
    /// Whether the request had a security context.
    pub stated: bool,
}

//! User, groups and privileges of a process, as in CRI.

use serde::{Deserialize, Serialize};

/// User and groups a process starts with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    pub user: RunAs,
    /// Primary group; only together with a user (CRI refuses it alone).
    pub group: Option<i64>,
    pub supplemental_groups: Vec<i64>,
    /// What happens with the groups the image's `/etc/group` gives the user.
    pub groups_policy: GroupsPolicy,
}

/// The user asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunAs {
    #[default]
    Image,
    Uid(i64),
    /// A user name that must resolve inside the image.
    Name(String),
}

/// `SupplementalGroupsPolicy` of CRI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupsPolicy {
    /// The image's groups of the user are added.
    #[default]
    Merge,
    /// Only the groups asked for.
    Strict,
}

/// A seccomp or AppArmor profile, `SecurityProfile` of CRI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Profile {
    RuntimeDefault,
    /// No confinement.
    Unconfined,
    /// A profile of this host: a path (seccomp) or a loaded profile's name (AppArmor).
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

/// Capabilities to add and drop, without the `CAP_` prefix, upper case; `ALL` is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Added to the engine's default set.
    pub add: Vec<String>,
    /// Removed from the engine's default set.
    pub drop: Vec<String>,
    /// Kept by programs that a user other than root starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ambient: Vec<String>,
}

/// Everything a container may ask about its confinement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerSecurity {
    pub identity: Identity,
    /// All capabilities, all devices, no confinement.
    pub privileged: bool,
    pub readonly_rootfs: bool,
    /// The process cannot gain privileges by set-uid programs.
    pub no_new_privs: bool,
    pub capabilities: Capabilities,
    /// Paths hidden from the container; CRI's list is literal: empty hides nothing.
    pub masked_paths: Vec<String>,
    /// Paths made read-only; literal too.
    pub readonly_paths: Vec<String>,
    /// Seccomp profile; none means unconfined.
    pub seccomp: Option<Profile>,
    /// AppArmor profile; none means the engine's default.
    pub apparmor: Option<Profile>,
    /// SELinux label; none lets the engine choose.
    pub selinux: Option<SelinuxLabel>,
    /// Whether the request carried a security context at all.
    pub stated: bool,
}

//! User, groups and privileges of a process, as in CRI.

use serde::{Deserialize, Serialize};

/// User and groups of a process at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    pub user: RunAs,
    /// Primary group. A group without a user is invalid in CRI.
    pub group: Option<i64>,
    pub supplemental_groups: Vec<i64>,
    /// Whether the process also gets the groups that the image's `/etc/group` lists for the user.
    pub groups_policy: GroupsPolicy,
}

/// The requested user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunAs {
    #[default]
    Image,
    Uid(i64),
    Name(String),
}

/// `SupplementalGroupsPolicy` of CRI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupsPolicy {
    /// The process has the requested groups, and the groups that the image lists for the user.
    #[default]
    Merge,
    /// The process has only its primary group and the requested groups.
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

/// `SELinuxOption` of CRI. An empty field means "not set".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SelinuxLabel {
    pub user: String,
    pub role: String,
    pub kind: String,
    pub level: String,
}

/// Capabilities to add and drop, in upper case without the `CAP_` prefix. `add` and `drop` may contain `ALL`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Capabilities in addition to the engine's default set.
    pub add: Vec<String>,
    /// Capabilities that the container does not get. With `ALL` here, it gets only those that `add` and `ambient` name.
    pub drop: Vec<String>,
    /// Ambient capabilities, which programs of a non-root user keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ambient: Vec<String>,
}

/// The security settings of a container, without its namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerSecurity {
    pub identity: Identity,
    /// The container gets all capabilities and all devices, and neither a seccomp profile nor masked paths.
    pub privileged: bool,
    pub readonly_rootfs: bool,
    /// The process gets no additional privileges when it executes a set-uid program.
    pub no_new_privs: bool,
    pub capabilities: Capabilities,
    /// Paths hidden from the container if `stated`; otherwise the engine hides its default paths.
    pub masked_paths: Vec<String>,
    /// Paths made read-only if `stated`; otherwise the engine makes its default paths read-only.
    pub readonly_paths: Vec<String>,
    /// Seccomp profile; `None` means unconfined.
    pub seccomp: Option<Profile>,
    /// AppArmor profile; `None` lets the engine choose a profile.
    pub apparmor: Option<Profile>,
    /// SELinux label; `None` lets the engine choose a label.
    pub selinux: Option<SelinuxLabel>,
    /// Whether the request to create the container had a security context.
    pub stated: bool,
}

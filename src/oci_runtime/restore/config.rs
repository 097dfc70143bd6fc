//! The parts of a `config.json` with which dockbridge-runtime compares a container checkpoint.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::oci_runtime) struct Config {
    pub(super) hostname: String,
    pub(super) root: Root,
    pub(super) process: Process,
    pub(super) mounts: Vec<Mount>,
    pub(super) linux: Linux,
    pub(super) hooks: Hooks,
}

/// The hooks that a restore does not run.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Hooks {
    pub(super) create_container: Vec<IgnoredAny>,
    pub(super) start_container: Vec<IgnoredAny>,
    pub(super) poststart: Vec<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Root {
    pub(super) path: String,
    pub(super) readonly: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Process {
    pub(super) user: User,
    pub(super) capabilities: Capabilities,
    pub(super) no_new_privileges: bool,
    pub(super) rlimits: Vec<Rlimit>,
    pub(super) oom_score_adj: i32,
    pub(super) apparmor_profile: String,
    pub(super) selinux_label: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) additional_gids: Vec<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Capabilities {
    pub(super) bounding: Vec<String>,
    pub(super) ambient: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Rlimit {
    #[serde(rename = "type")]
    pub(super) name: String,
    pub(super) hard: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Mount {
    pub(super) destination: String,
    pub(super) source: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) options: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Linux {
    pub(super) namespaces: Vec<Namespace>,
    pub(super) masked_paths: Vec<String>,
    pub(super) readonly_paths: Vec<String>,
    pub(super) devices: Vec<Device>,
    pub(super) sysctl: BTreeMap<String, String>,
    pub(super) seccomp: Value,
    pub(super) mount_label: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Namespace {
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// Path of the namespace that the container joins. Empty if the container gets a new namespace.
    pub(super) path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Device {
    /// `b` for a block device, `c` or `u` for a character device.
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) path: String,
    pub(super) major: u32,
    pub(super) minor: u32,
}

impl Config {
    pub(super) fn has_namespace(&self, kind: &str) -> bool {
        self.linux.namespaces.iter().any(|namespace| namespace.kind == kind)
    }

    /// Whether the container has its own pid namespace, so that it sees only its own processes.
    pub(super) fn has_own_processes(&self) -> bool {
        let mut namespaces = self.linux.namespaces.iter();
        namespaces.any(|namespace| namespace.kind == "pid" && namespace.path.is_empty())
    }

    /// Whether the container's bounding set has this capability.
    pub(super) fn allows(&self, capability: &str) -> bool {
        self.process.capabilities.bounding.iter().any(|name| name == capability)
    }
}

impl Process {
    /// The AppArmor profile of the process. `None` if the process is unconfined.
    pub(super) fn confining_profile(&self) -> Option<&str> {
        let profile = self.apparmor_profile.as_str();
        (!matches!(profile, "" | "unconfined")).then_some(profile)
    }
}

impl Mount {
    /// Whether the mount is a bind mount, so that its source is outside of the container.
    pub(super) fn is_bind(&self) -> bool {
        self.kind == "bind" || self.has("bind") || self.has("rbind")
    }

    /// The mount options that the kernel passes to the file system.
    pub(super) fn file_system_options(&self) -> Vec<&str> {
        let own = ["newinstance", "inode32", "inode64", "noswap"];
        let options = self.options.iter().map(String::as_str);
        options.filter(|it| it.contains('=') || own.contains(it)).collect()
    }

    pub(super) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|it| it == option)
    }
}

//! Changes of a container's `config.json` (OCI runtime specification) for CRI requests, CDI devices and NRI plugins.
//!
//! The JSON of a [`SpecEdit`] is a durable format: dockbridge stores it in a label, in the state directory,
//! and in the file that `dockbridge-runtime` reads.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One change of a container's `config.json`. `at` has the keys from the top of the document to the field. A
/// list entry is found by its key, for example `["mounts", "/data"]` or `["process", "env", "PATH"]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpecEdit {
    /// Sets the field to `value`. If the field is a list entry, `value` does not contain the entry's key. For an
    /// environment variable, `value` is only the variable's value. The `value` of a device also has `access` (letters
    /// of `rwm`), and `hostPath` if the engine has to copy the host's device.
    Set { at: Vec<String>, value: Value },
    /// Removes the field, if it is set.
    Remove { at: Vec<String> },
    /// Appends `values` to a list. Groups and capabilities that are already in the list are not added again.
    Add { at: Vec<String>, values: Vec<Value> },
}

impl SpecEdit {
    /// A [`Self::Set`].
    pub fn set(at: &[&str], value: impl Into<Value>) -> Self {
        Self::Set { at: owned(at), value: value.into() }
    }

    /// A [`Self::Remove`].
    pub fn remove(at: &[&str]) -> Self {
        Self::Remove { at: owned(at) }
    }

    /// A [`Self::Add`].
    pub fn add<T: Into<Value>>(at: &[&str], values: impl IntoIterator<Item = T>) -> Self {
        Self::Add { at: owned(at), values: values.into_iter().map(Into::into).collect() }
    }

    /// The path of the changed field, as keys.
    pub fn keys(&self) -> Vec<&str> {
        let (Self::Set { at, .. } | Self::Remove { at } | Self::Add { at, .. }) = self;
        at.iter().map(String::as_str).collect()
    }

    /// The path of the changed field as text, for error messages.
    pub fn name(&self) -> String {
        self.keys().join(".")
    }

    /// Whether the change also applies to exec commands in the container.
    pub fn is_for_commands(&self) -> bool {
        matches!(self.keys().as_slice(), ["process", "env" | "user" | "capabilities", ..])
    }

    /// Whether a CDI device or an NRI plugin may request this change.
    pub fn is_for_plugins(&self) -> bool {
        let keys = self.keys();
        let places = if let Self::Add { .. } = self { ADDED_BY_PLUGINS } else { SET_BY_PLUGINS };
        places.iter().any(|place| {
            let steps: Vec<&str> = place.split('/').collect();
            let fits = |(step, key): (&&str, &&str)| *step == ANY || step == key;
            steps.len() == keys.len() && steps.iter().zip(&keys).all(fits)
        })
    }
}

/// As `uid` or `gid` of a device: the device belongs to the user or group of the container's process.
pub const OF_PROCESS: &str = "process";

/// Removes the members of a JSON object that are null, an empty text or an empty list.
pub fn without_empty(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.retain(|_, member| match member {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(list) => !list.is_empty(),
            _ => true,
        });
    }
    value
}

fn owned(at: &[&str]) -> Vec<String> {
    at.iter().map(|key| (*key).to_owned()).collect()
}

/// Common mount options of CDI specs without a field in the Engine API. They are left out without dockbridge-runtime.
pub const IGNORED_OPTIONS: [&str; 3] = ["nosuid", "nodev", "noexec"];
/// In [`SET_BY_PLUGINS`], stands for any key.
const ANY: &str = "*";
const SET_BY_PLUGINS: &[&str] = &[
    "annotations/*",
    "linux/cgroupsPath",
    "linux/devices/*",
    "linux/intelRdt",
    "linux/intelRdt/*",
    "linux/memoryPolicy",
    "linux/namespaces/*",
    "linux/netDevices/*",
    "linux/resources/cpu/realtimePeriod",
    "linux/resources/cpu/realtimeRuntime",
    "linux/resources/memory/disableOOMKiller",
    "linux/resources/memory/kernel",
    "linux/resources/memory/kernelTCP",
    "linux/resources/memory/swappiness",
    "linux/resources/memory/useHierarchy",
    "linux/seccomp",
    "linux/sysctl/*",
    "mounts/*",
    "process/args",
    "process/env/*",
    "process/ioPriority",
    "process/oomScoreAdj",
    "process/rlimits/*",
    "process/scheduler",
];
const ADDED_BY_PLUGINS: &[&str] = &[
    "hooks/createContainer",
    "hooks/createRuntime",
    "hooks/poststart",
    "hooks/poststop",
    "hooks/prestart",
    "hooks/startContainer",
    "linux/resources/devices",
    "process/user/additionalGids",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{SpecEdit, without_empty};

    #[test]
    fn what_a_plugin_may_change_is_a_closed_list() {
        let set = |at: &[&str]| SpecEdit::set(at, json!(1));
        let add = |at: &[&str]| SpecEdit::add(at, [1]);
        for edit in [
            set(&["process", "env", "PATH"]),
            set(&["linux", "sysctl", "net.ipv4.ip_forward"]),
            set(&["mounts", "/a/b"]),
            SpecEdit::remove(&["linux", "intelRdt"]),
            add(&["hooks", "poststop"]),
        ] {
            assert!(edit.is_for_plugins(), "{edit:?}");
        }
        for edit in [
            set(&[]),
            set(&["root", "path"]),
            set(&["process", "env"]),
            set(&["process", "capabilities", "ambient"]),
            set(&["linux", "uidMappings"]),
            set(&["linux", "resources", "unified", "memory.max"]),
            set(&["hooks", "poststop"]),
            SpecEdit::remove(&["linux"]),
            add(&["mounts"]),
            add(&["mounts", "/a", "options"]),
            add(&["hooks", "later"]),
            add(&["process", "capabilities", "ambient"]),
        ] {
            assert!(!edit.is_for_plugins(), "{edit:?}");
        }
    }

    #[test]
    fn edits_are_stored_as_they_are() {
        for (edit, stored) in [
            (SpecEdit::set(&["a", "b/c"], 7), json!({"set": {"at": ["a", "b/c"], "value": 7}})),
            (SpecEdit::remove(&["a"]), json!({"remove": {"at": ["a"]}})),
            (SpecEdit::add(&["a"], ["x"]), json!({"add": {"at": ["a"], "values": ["x"]}})),
        ] {
            assert_eq!(serde_json::to_value(&edit).unwrap(), stored);
            assert_eq!(serde_json::from_value::<SpecEdit>(stored).unwrap(), edit);
        }
        assert!(serde_json::from_value::<SpecEdit>(json!({"replace": {"at": []}})).is_err());
    }

    #[test]
    fn what_says_nothing_is_left_out() {
        let all = json!({"a": null, "b": "", "c": [], "d": 0, "e": false, "f": {}});
        assert_eq!(without_empty(all), json!({"d": 0, "e": false, "f": {}}));
    }
}

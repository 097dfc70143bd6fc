//! Parses a CDI specification file. An unknown field, which may be important, is an error.

use serde::{Deserialize, de::IgnoredAny};
use serde_saphyr::Options;

use crate::wire::nullable::nullable;

/// The content of a specification file: devices of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Specification {
    cdi_version: String,
    /// The kind of the devices, `vendor/class`.
    pub(super) kind: String,
    #[serde(default, rename = "annotations")]
    _annotations: Option<IgnoredAny>,
    /// Edits that the devices of this file share, applied once to a container.
    #[serde(default, deserialize_with = "nullable")]
    pub(super) container_edits: Edits,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) devices: Vec<Device>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Device {
    pub(super) name: String,
    #[serde(default, rename = "annotations")]
    _annotations: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) container_edits: Edits,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Edits {
    /// Environment variables, each as `NAME=value`.
    #[serde(deserialize_with = "nullable")]
    pub(super) env: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(super) device_nodes: Vec<Node>,
    #[serde(deserialize_with = "nullable")]
    pub(super) net_devices: Vec<NetDevice>,
    #[serde(deserialize_with = "nullable")]
    pub(super) hooks: Vec<Hook>,
    #[serde(deserialize_with = "nullable")]
    pub(super) mounts: Vec<Mount>,
    pub(super) intel_rdt: Option<IntelRdt>,
    /// Additional groups of the container's process; 0 is ignored.
    #[serde(deserialize_with = "nullable")]
    pub(super) additional_gids: Vec<u32>,
}

/// A device node. `device_node.rs` says what applies if the file does not state the type, the numbers, the mode or the
/// owner.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Node {
    pub(super) path: String,
    /// The path of the device node on the host. If `host_path` is empty, `path` is also the path on the host.
    #[serde(deserialize_with = "nullable")]
    pub(super) host_path: String,
    /// The type of the node: `b`, `c`, `u` or `p`.
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub(super) kind: String,
    /// The major number; 0 means that the file does not state it.
    #[serde(deserialize_with = "nullable")]
    pub(super) major: u64,
    /// The minor number, used only if the file states `major`.
    #[serde(deserialize_with = "nullable")]
    pub(super) minor: u64,
    pub(super) file_mode: Option<u32>,
    /// Letters of `rwm`; if the field is empty, the container gets all three permissions.
    #[serde(deserialize_with = "nullable")]
    pub(super) permissions: String,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Mount {
    pub(super) host_path: String,
    pub(super) container_path: String,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) options: Vec<String>,
    /// The type of the file system; if it is not stated, dockbridge makes a bind mount.
    #[serde(rename = "type", default, deserialize_with = "nullable")]
    pub(super) kind: String,
}

/// A program that the OCI runtime runs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Hook {
    /// When the OCI runtime runs the hook, for example `prestart` (a name of the OCI runtime specification).
    pub(super) hook_name: String,
    pub(super) path: String,
    /// Arguments of the hook; the first is the program's name.
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Option<Vec<String>>,
    pub(super) timeout: Option<i64>,
}

/// A network device that moves into the container.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct NetDevice {
    pub(super) host_interface_name: String,
    pub(super) name: Option<String>,
}

/// Limits of cache and memory bandwidth (Intel RDT).
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct IntelRdt {
    #[serde(rename = "closID")]
    pub(super) clos_id: Option<String>,
    /// The `L3` line of the resctrl file `schemata`.
    pub(super) l3_cache_schema: Option<String>,
    /// The `MB` line of the resctrl file `schemata`.
    pub(super) mem_bw_schema: Option<String>,
    /// Lines to write into the resctrl file `schemata`.
    pub(super) schemata: Option<Vec<String>>,
    pub(super) enable_monitoring: Option<bool>,
    #[serde(rename = "enableCMT")]
    pub(super) enable_cmt: Option<bool>,
    #[serde(rename = "enableMBM")]
    pub(super) enable_mbm: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Yaml,
}

/// Why a text is not a valid specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    /// The line of the error, counted from 1, if the line is known.
    pub(super) line: Option<u64>,
    pub(super) reason: String,
}

impl Specification {
    pub(super) fn parse(format: Format, text: &str) -> Result<Self, Malformed> {
        let read: Self = match format {
            Format::Json => serde_json::from_str(text).map_err(|error| wrong_json(&error))?,
            Format::Yaml => {
                serde_saphyr::from_str_with_options(text, bounded()).map_err(|e| wrong_yaml(&e))?
            }
        };
        read.check().map_err(|reason| Malformed { line: None, reason })?;
        Ok(read)
    }

    fn check(&self) -> Result<(), String> {
        if !VERSIONS.contains(&self.cdi_version.as_str()) {
            return Err(format!("cdiVersion {:?} is not known", self.cdi_version));
        }
        let kind = self.kind.split_once('/');
        if kind.is_none_or(|(vendor, class)| vendor.is_empty() || class.is_empty()) {
            return Err(format!("kind {:?} does not have the form vendor/class", self.kind));
        }
        for (index, device) in self.devices.iter().enumerate() {
            let before = self.devices.iter().take(index);
            if device.name.is_empty() || before.into_iter().any(|one| one.name == device.name) {
                return Err(format!("device name {:?} is empty or used twice", device.name));
            }
        }
        Ok(())
    }
}

/// Limits how much the YAML references of a file can expand. `0666` is octal, as in the engine's CDI parser.
fn bounded() -> Options {
    serde_saphyr::options! {
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MOST_REPEATED },
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

fn wrong_json(error: &serde_json::Error) -> Malformed {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let reason = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
    Malformed { line: u64::try_from(line).ok(), reason: one_line(reason) }
}

/// Makes `reason` one line, because it may quote field names with any characters.
fn one_line(reason: &str) -> String {
    reason.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn wrong_yaml(error: &serde_saphyr::Error) -> Malformed {
    let text = error.without_snippet().to_string();
    let first = text.lines().next().unwrap_or_default();
    let reason = one_line(first.split(" at line ").next().unwrap_or_default());
    Malformed { line: error.location().map(|place| place.line()), reason }
}

/// The published versions of the CDI specification whose fields are all known here.
const VERSIONS: [&str; 8] =
    ["0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"];
/// How many parser events the YAML references of a file may expand to.
const MOST_REPEATED: usize = 100_000;

#[cfg(test)]
mod tests;

//! Parses a specification file. An unknown field makes the file malformed, because the field might be
//! important.

use serde::{Deserialize, de::IgnoredAny};
use serde_saphyr::Options;

use crate::wire::nullable::nullable;

/// One file: devices of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Specification {
    cdi_version: String,
    /// `vendor/class`.
    pub(super) kind: String,
    #[serde(default, rename = "annotations")]
    _annotations: Option<IgnoredAny>,
    /// Edits for every device of this file, applied once.
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
    /// `NAME=value`.
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
    /// Groups of the process; 0 means none.
    #[serde(deserialize_with = "nullable")]
    pub(super) additional_gids: Vec<u32>,
}

/// A device node; what is not stated is taken from the host's node.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Node {
    pub(super) path: String,
    /// On the host; the path in the container when not stated.
    #[serde(deserialize_with = "nullable")]
    pub(super) host_path: String,
    /// `b`, `c`, `u` or `p`.
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub(super) kind: String,
    /// 0 means not stated.
    #[serde(deserialize_with = "nullable")]
    pub(super) major: u64,
    /// Used only when `major` is stated.
    #[serde(deserialize_with = "nullable")]
    pub(super) minor: u64,
    pub(super) file_mode: Option<u32>,
    /// Subset of `rwm`; all when not stated.
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
    /// The type of the file system; a bind mount when not stated.
    #[serde(rename = "type", default, deserialize_with = "nullable")]
    pub(super) kind: String,
}

/// A program that the runtime runs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Hook {
    /// When it runs, as the OCI runtime specification names it.
    pub(super) hook_name: String,
    pub(super) path: String,
    /// Arguments, its name first.
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Option<Vec<String>>,
    /// Seconds.
    pub(super) timeout: Option<i64>,
}

/// A network device that moves into the container.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct NetDevice {
    pub(super) host_interface_name: String,
    /// In the container.
    pub(super) name: Option<String>,
}

/// Cache and memory bandwidth.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct IntelRdt {
    #[serde(rename = "closID")]
    pub(super) clos_id: Option<String>,
    /// The `L3` line of `schemata`.
    pub(super) l3_cache_schema: Option<String>,
    /// The `MB` line of `schemata`.
    pub(super) mem_bw_schema: Option<String>,
    /// Lines of `schemata`.
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
    /// Counted from 1, if it is known.
    pub(super) line: Option<u64>,
    /// What is wrong, on one line.
    pub(super) reason: String,
}

impl Specification {
    /// Reads the text of a file.
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

/// Limits YAML references, so that a small file cannot become a large value. `0666` is read as octal, as
/// the engine's own reader does.
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

/// The reason as one line. It names fields, which may contain any characters.
fn one_line(reason: &str) -> String {
    reason.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn wrong_yaml(error: &serde_saphyr::Error) -> Malformed {
    let text = error.without_snippet().to_string();
    let first = text.lines().next().unwrap_or_default();
    let reason = one_line(first.split(" at line ").next().unwrap_or_default());
    Malformed { line: error.location().map(|place| place.line()), reason }
}

/// The published versions of the CDI of which we know every field.
const VERSIONS: [&str; 8] =
    ["0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"];
/// How many parser events the references may be expanded to.
const MOST_REPEATED: usize = 100_000;

#[cfg(test)]
mod tests;

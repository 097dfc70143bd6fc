//! One network configuration: a list of plugins, or a single plugin that becomes a list.
//!
//! Each plugin gets its configuration, in which only `name`, `cniVersion`, `runtimeConfig` and `prevResult` change.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::version::{Version, listed};
use crate::wire::nullable::nullable;

/// A network configuration that dockbridge can parse.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfigList {
    /// The network's name, which has only characters that are allowed in a file name.
    pub name: String,
    /// The version of the CNI specification that dockbridge uses in calls of the plugins.
    pub version: Version,
    pub versions: Vec<Version>,
    /// Plugins in the order of ADD; never empty.
    pub plugins: Vec<PluginConfig>,
    raw: Map<String, Value>,
}

/// One plugin of a network configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginConfig {
    pub kind: String,
    /// Capabilities: names of the values that the plugin accepts in `runtimeConfig`.
    pub capabilities: BTreeSet<String>,
    body: Map<String, Value>,
}

impl NetworkConfigList {
    /// Reads the content of a `.conflist` file.
    pub fn from_list(text: &str) -> Result<Self, String> {
        Self::from_object(object(text)?)
    }

    /// Reads a `.conflist` file, and appends the plugins of the folder that has the network's name and is
    /// next to this file (CNI 1.1), unless `loadOnlyInlinedPlugins` is set. `in_folder` reads this folder.
    ///
    /// # Errors
    /// The reason why dockbridge cannot use the configuration, or cannot read a plugin's file in the folder.
    pub fn from_file(
        text: &str,
        in_folder: impl FnOnce(&str) -> Result<Vec<String>, String>,
    ) -> Result<Self, String> {
        let mut raw = object(text)?;
        let mut fields: ListFields = decode(Value::Object(raw.clone()))?;
        let name = fields.name.unwrap_or_default();
        if is_network_name(&name) && !fields.only_inlined.is_some_and(|flag| flag.is_set()) {
            for plugin in in_folder(&name)? {
                fields.plugins.push(object(&plugin)?);
            }
            let plugins = fields.plugins.into_iter().map(Value::Object).collect();
            raw.insert("plugins".to_owned(), Value::Array(plugins));
        }
        Self::from_object(raw)
    }

    /// Reads the content of a `.conf` or `.json` file, which has a single plugin.
    pub fn from_single(text: &str) -> Result<Self, String> {
        let body = object(text)?;
        if !body.contains_key("type") && body.contains_key("plugins") {
            let reason = "the file has \"plugins\" instead of \"type\": a list of plugins must be in a .conflist file";
            return Err(reason.to_owned());
        }
        let shared = |key: &str| Some((key.to_owned(), body.get(key)?.clone()));
        let mut raw: Map<String, Value> = SHARED.into_iter().filter_map(shared).collect();
        raw.insert("plugins".to_owned(), Value::Array(vec![Value::Object(body)]));
        Self::from_object(raw)
    }

    /// The same configuration, but with `version` as its only version of the CNI specification.
    pub fn with_version(mut self, version: Version) -> Self {
        self.raw.insert("cniVersion".to_owned(), version.to_string().into());
        self.raw.remove("cniVersions");
        self.version = version;
        self.versions = vec![version];
        self
    }

    /// The configuration as JSON, readable by [`NetworkConfigList::from_list`].
    pub fn text(&self) -> String {
        Value::Object(self.raw.clone()).to_string()
    }

    /// Whether the configuration only brings up `lo`, so that it is not a pod network.
    pub fn is_loopback(&self) -> bool {
        self.plugins.iter().all(|plugin| plugin.kind == "loopback")
    }

    /// Whether a plugin of the configuration has this capability.
    pub fn has_capability(&self, capability: &str) -> bool {
        self.plugins.iter().any(|plugin| plugin.capabilities.contains(capability))
    }

    fn from_object(raw: Map<String, Value>) -> Result<Self, String> {
        let fields: ListFields = decode(Value::Object(raw.clone()))?;
        let name = fields.name.unwrap_or_default();
        if !is_network_name(&name) {
            return Err(format!(
                "network name {name:?} must be at most {NAME_LIMIT} ASCII letters, digits, '_', '.' or '-', starting with a letter or digit"
            ));
        }
        let versions = known_versions(fields.version.as_deref(), &fields.versions)?;
        let plugins = fields.plugins.into_iter().map(PluginConfig::from_object);
        let plugins = plugins.collect::<Result<Vec<_>, _>>()?;
        if plugins.is_empty() {
            return Err("no plugins".to_owned());
        }
        Ok(Self {
            name,
            version: versions.iter().copied().max().unwrap_or(Version::OLDEST),
            versions,
            plugins,
            raw,
        })
    }
}

impl PluginConfig {
    fn from_object(body: Map<String, Value>) -> Result<Self, String> {
        let fields: PluginFields = decode(Value::Object(body.clone()))?;
        let kind = fields.kind.unwrap_or_default();
        if kind.is_empty() || kind.contains(['/', '\0']) || kind == "." || kind == ".." {
            return Err(format!("plugin type {kind:?} is not a plain file name"));
        }
        let requested = fields.capabilities.into_iter();
        let capabilities = requested.filter(|(_, on)| *on == Some(true));
        let capabilities = capabilities.map(|(name, _)| name).collect();
        Ok(Self { kind, capabilities, body })
    }

    /// The JSON that the plugin reads from standard input: its part of the configuration, the name and
    /// version of the list, `runtimeConfig` and `prevResult`.
    pub fn input(
        &self,
        list: &NetworkConfigList,
        arguments: &Map<String, Value>,
        previous: Option<&Value>,
    ) -> Map<String, Value> {
        let mut input = self.body.clone();
        input.insert("name".to_owned(), list.name.clone().into());
        input.insert("cniVersion".to_owned(), list.version.to_string().into());
        let runtime_config: Map<String, Value> = arguments
            .iter()
            .filter(|(name, _)| self.capabilities.contains(*name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !runtime_config.is_empty() {
            input.insert("runtimeConfig".to_owned(), Value::Object(runtime_config));
        }
        if let Some(previous) = previous {
            input.insert("prevResult".to_owned(), previous.clone());
        }
        input
    }
}

#[derive(Deserialize)]
struct ListFields {
    name: Option<String>,
    #[serde(rename = "cniVersion")]
    version: Option<String>,
    #[serde(rename = "cniVersions", default, deserialize_with = "nullable")]
    versions: Vec<String>,
    #[serde(rename = "loadOnlyInlinedPlugins")]
    only_inlined: Option<Flag>,
    #[serde(default, deserialize_with = "nullable")]
    plugins: Vec<Map<String, Value>>,
}

#[derive(Deserialize)]
struct PluginFields {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    capabilities: BTreeMap<String, Option<bool>>,
}

/// A field that is a string or a boolean, depending on the version of the CNI specification.
#[derive(Deserialize)]
#[serde(untagged)]
enum Flag {
    Bool(bool),
    Text(String),
}

impl Flag {
    fn is_set(&self) -> bool {
        match self {
            Self::Bool(set) => *set,
            Self::Text(text) => text.eq_ignore_ascii_case("true"),
        }
    }
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| malformed(&error))
}

fn decode<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| malformed(&error))
}

fn malformed(error: &serde_json::Error) -> String {
    format!("not a network configuration: {error}")
}

fn known_versions(one: Option<&str>, more: &[String]) -> Result<Vec<Version>, String> {
    let one = one.filter(|text| !text.is_empty());
    if one.is_none() && more.is_empty() {
        return Ok(vec![Version::OLDEST]);
    }
    let requested: BTreeSet<&str> =
        one.into_iter().chain(more.iter().map(String::as_str)).collect();
    let known = requested.iter().filter_map(|text| text.parse().ok());
    let known: BTreeSet<Version> = known.collect();
    if known.is_empty() {
        let requested = requested.into_iter().collect::<Vec<_>>().join(", ");
        let reason = format!(
            "the configuration requests CNI {requested}; dockbridge supports 0.1.0 to 1.1.0"
        );
        return Err(reason);
    }
    Ok(known.into_iter().collect())
}

fn is_network_name(name: &str) -> bool {
    name.len() <= NAME_LIMIT
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

/// The highest version that a list and all its plugins support.
///
/// # Errors
/// A sentence that names a version of the list, and a plugin that does not support this version.
pub(super) fn negotiate_version(
    list: &NetworkConfigList,
    plugins: &[(String, Vec<Version>)],
) -> Result<Version, String> {
    let supports = |version: &&Version| plugins.iter().all(|(_, known)| known.contains(version));
    if let Some(version) = list.versions.iter().rev().find(supports) {
        return Ok(*version);
    }
    let refused_by = |version: &Version| {
        plugins.iter().find(|(_, known)| !known.contains(version)).map(|(kind, known)| {
            format!("plugin {kind} does not support CNI {version} (it supports {})", listed(known))
        })
    };
    Err(list.versions.iter().rev().find_map(refused_by).unwrap_or_default())
}

/// Keys that dockbridge copies from a single plugin's configuration to the list with this plugin.
const SHARED: [&str; 5] = ["name", "cniVersion", "cniVersions", "disableCheck", "disableGC"];
/// Longest network name in bytes: a cache file's name (at most 255) also has a 64-digit id and an interface.
const NAME_LIMIT: usize = 160;

#[cfg(test)]
mod tests;

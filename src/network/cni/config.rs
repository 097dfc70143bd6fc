//! One network configuration: a list of plugins, or a single one that becomes a list of one.
//!
//! What plugins put into their own part is theirs and is passed on untouched.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

use super::version::{Version, listed};

/// A readable configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkList {
    /// Name of the network; fit for a file name.
    pub name: String,
    /// The version spoken with its plugins.
    pub version: Version,
    /// All versions the configuration allows, `version` among them.
    pub offered: Vec<Version>,
    /// Plugins in the order of ADD; never empty.
    pub plugins: Vec<Plugin>,
    /// CHECK must not be called.
    pub check_disabled: bool,
    /// GC must not be called.
    pub gc_disabled: bool,
    raw: Map<String, Value>,
}

/// One plugin of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// Name of its executable, without any path.
    pub kind: String,
    /// What it wants to be told about each pod.
    pub capabilities: BTreeSet<String>,
    body: Map<String, Value>,
}

/// Why a text is no usable configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// Not JSON, or a well-known field has the wrong type.
    #[error("not a network configuration: {0}")]
    Malformed(String),
    /// A list in a file that must hold a single plugin.
    #[error("no \"type\" but \"plugins\": a list belongs into a .conflist file")]
    ListInSingle,
    /// No plugin at all.
    #[error("no plugins")]
    Empty,
    /// The name is absent or not fit for plugins' own file names.
    #[error(
        "network name {0:?} must be letters, digits, '_', '.', '-', starting with a letter or digit"
    )]
    Name(String),
    /// A plugin is not named, or named by more than a plain file name.
    #[error("plugin type {0:?} is not a plain file name")]
    PluginType(String),
    /// No version that this room knows.
    #[error("asks for CNI {0}; known are 0.1.0 to 1.1.0")]
    Version(String),
}

impl NetworkList {
    /// Reads the content of a `.conflist` file.
    ///
    /// # Errors
    /// What [`ConfigError`] lists.
    pub fn from_list(text: &str) -> Result<Self, ConfigError> {
        Self::from_object(object(text)?)
    }

    /// Reads the content of a `.conf` or `.json` file: one plugin.
    ///
    /// # Errors
    /// What [`ConfigError`] lists.
    pub fn from_single(text: &str) -> Result<Self, ConfigError> {
        let body = object(text)?;
        if !body.contains_key("type") && body.contains_key("plugins") {
            return Err(ConfigError::ListInSingle);
        }
        let shared = SHARED
            .iter()
            .filter_map(|key| body.get(*key).map(|value| ((*key).to_owned(), value.clone())));
        let mut raw: Map<String, Value> = shared.collect();
        raw.insert("plugins".to_owned(), Value::Array(vec![Value::Object(body)]));
        Self::from_object(raw)
    }

    /// The same configuration, held to one of its versions.
    pub fn held_to(mut self, version: Version) -> Self {
        self.raw.insert("cniVersion".to_owned(), version.to_string().into());
        self.raw.remove("cniVersions");
        self.version = version;
        self.offered = vec![version];
        self
    }

    /// The configuration as JSON, readable by [`NetworkList::from_list`].
    pub fn text(&self) -> String {
        Value::Object(self.raw.clone()).to_string()
    }

    /// Whether it only raises `lo`: no network of a pod.
    pub fn is_loopback(&self) -> bool {
        self.plugins.iter().all(|plugin| plugin.kind == "loopback")
    }

    /// Whether some plugin wants to be told this.
    pub fn wants(&self, capability: &str) -> bool {
        self.plugins.iter().any(|plugin| plugin.capabilities.contains(capability))
    }

    fn from_object(raw: Map<String, Value>) -> Result<Self, ConfigError> {
        let facts: Facts = decode(Value::Object(raw.clone()))?;
        let name = facts.name.unwrap_or_default();
        if !is_network_name(&name) {
            return Err(ConfigError::Name(name));
        }
        let offered = versions(facts.version.as_deref(), &facts.versions)?;
        let plugins: Result<Vec<Plugin>, ConfigError> =
            facts.plugins.into_iter().map(Plugin::from_object).collect();
        let plugins = plugins?;
        if plugins.is_empty() {
            return Err(ConfigError::Empty);
        }
        Ok(Self {
            name,
            version: offered.iter().copied().max().unwrap_or(Version::OLDEST),
            offered,
            plugins,
            check_disabled: facts.check_disabled.is_set(),
            gc_disabled: facts.gc_disabled.is_set(),
            raw,
        })
    }
}

impl Plugin {
    fn from_object(body: Map<String, Value>) -> Result<Self, ConfigError> {
        let facts: PluginFacts = decode(Value::Object(body.clone()))?;
        let kind = facts.kind.unwrap_or_default();
        if kind.is_empty() || kind.contains(['/', '\0']) || kind == "." || kind == ".." {
            return Err(ConfigError::PluginType(kind));
        }
        let wanted = facts.capabilities.unwrap_or_default().into_iter();
        let capabilities = wanted.filter_map(|(name, on)| on.then_some(name)).collect();
        Ok(Self { kind, capabilities, body })
    }

    /// What the plugin reads: its own part under the list's name and version, with what the
    /// runtime has to say about this call.
    pub fn input(
        &self,
        list: &NetworkList,
        arguments: &Map<String, Value>,
        previous: Option<&Value>,
    ) -> Map<String, Value> {
        let mut input = self.body.clone();
        input.insert("name".to_owned(), list.name.clone().into());
        input.insert("cniVersion".to_owned(), list.version.to_string().into());
        let told: Map<String, Value> = arguments
            .iter()
            .filter(|(name, _)| self.capabilities.contains(*name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !told.is_empty() {
            input.insert("runtimeConfig".to_owned(), Value::Object(told));
        }
        if let Some(previous) = previous {
            input.insert("prevResult".to_owned(), previous.clone());
        }
        input
    }
}

#[derive(Deserialize)]
struct Facts {
    name: Option<String>,
    #[serde(rename = "cniVersion")]
    version: Option<String>,
    #[serde(rename = "cniVersions", default)]
    versions: Vec<String>,
    #[serde(rename = "disableCheck", default)]
    check_disabled: Flag,
    #[serde(rename = "disableGC", default)]
    gc_disabled: Flag,
    #[serde(default)]
    plugins: Vec<Map<String, Value>>,
}

#[derive(Deserialize)]
struct PluginFacts {
    #[serde(rename = "type")]
    kind: Option<String>,
    capabilities: Option<BTreeMap<String, bool>>,
}

/// The specification changed its mind about the type between versions.
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

impl Default for Flag {
    fn default() -> Self {
        Self::Bool(false)
    }
}

fn object(text: &str) -> Result<Map<String, Value>, ConfigError> {
    serde_json::from_str(text).map_err(|e| ConfigError::Malformed(e.to_string()))
}

fn decode<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, ConfigError> {
    serde_json::from_value(value).map_err(|e| ConfigError::Malformed(e.to_string()))
}

/// Those of the asked versions that are known, in rising order.
fn versions(one: Option<&str>, more: &[String]) -> Result<Vec<Version>, ConfigError> {
    let one = one.filter(|text| !text.is_empty());
    if one.is_none() && more.is_empty() {
        return Ok(vec![Version::OLDEST]);
    }
    let asked: BTreeSet<&str> = one.into_iter().chain(more.iter().map(String::as_str)).collect();
    let read = asked.iter().filter_map(|text| text.parse::<Version>().ok());
    let known: BTreeSet<Version> = read.filter(|v| Version::KNOWN.contains(v)).collect();
    if known.is_empty() {
        let asked: Vec<&str> = asked.into_iter().collect();
        return Err(ConfigError::Version(asked.join(", ")));
    }
    Ok(known.into_iter().collect())
}

fn is_network_name(name: &str) -> bool {
    name.len() <= NAME_LIMIT
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

/// The highest version that a list and all its plugins speak.
///
/// # Errors
/// A sentence naming the plugin that stands in the way.
pub(super) fn agree(
    list: &NetworkList,
    plugins: &[(String, Vec<Version>)],
) -> Result<Version, String> {
    let speaks = |version: &&Version| plugins.iter().all(|(_, known)| known.contains(version));
    if let Some(version) = list.offered.iter().rev().find(speaks) {
        return Ok(*version);
    }
    let blames = |version: &Version| {
        plugins.iter().find(|(_, known)| !known.contains(version)).map(|(kind, known)| {
            format!("plugin {kind} does not speak CNI {version} (it speaks {})", listed(known))
        })
    };
    Err(list.offered.iter().rev().find_map(blames).unwrap_or_default())
}

/// Keys of a single configuration that belong to the list made of it.
const SHARED: [&str; 5] = ["name", "cniVersion", "cniVersions", "disableCheck", "disableGC"];
/// A cache file's name holds it beside a 64-digit id and an interface name.
const NAME_LIMIT: usize = 160;

#[cfg(test)]
mod tests;

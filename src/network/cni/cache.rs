//! Results of ADD in libcni's cache: `<directory>/results/<network>-<container>-<interface>`.
//!
//! By default, cri-dockerd uses the same cache, so each can release the networks of pods that the other has created.

use std::{
    io,
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tracing::warn;

use super::result;
use crate::{
    host::{
        error::HostError,
        file::{self, Durability},
    },
    wire::lenient::lenient,
};

/// The cache of CNI results on this node. Methods that use the disk block the thread.
#[derive(Clone, Debug)]
pub struct ResultCache {
    results: PathBuf,
}

/// Identifies an attachment: a container's interface on a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AttachmentKey {
    pub network: String,
    pub container: String,
    pub interface: String,
}

/// The cached result of one ADD.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CachedResult {
    pub key: AttachmentKey,
    pub netns: Option<String>,
    pub config: Option<String>,
    pub arguments: Vec<(String, String)>,
    pub capabilities: Map<String, Value>,
    pub result: Value,
    /// Whether dockbridge wrote the entry, not another runtime that uses the same directory.
    pub ours: bool,
}

impl ResultCache {
    /// Uses the cache below `directory`. The directory might not exist yet.
    pub fn new(directory: &Path) -> Self {
        Self { results: directory.join("results") }
    }

    /// Stores the result of an ADD.
    pub fn write(&self, entry: &CachedResult) -> Result<(), HostError> {
        let path = self.path(&entry.key);
        let text =
            encode(entry).map_err(|e| HostError::new("write", &path, io::Error::other(e)))?;
        file::ensure_directory(&self.results, 0o700)?;
        file::replace(&path, &text, Durability::Written)
    }

    /// Reads the cached result of an ADD. `None` if the file is missing or damaged: DEL can run without the result.
    pub fn read(&self, key: &AttachmentKey) -> Result<Option<CachedResult>, HostError> {
        let path = self.path(key);
        let Some(value) = undamaged(load(&path))?.flatten() else { return Ok(None) };
        if let Some(entry) = decode(&value) {
            return Ok(Some(entry));
        }
        // Old versions of libcni stored only the result.
        let is_result = value.get("kind").is_none() && value.is_object();
        Ok(is_result.then(|| CachedResult {
            key: key.clone(),
            result: value,
            ..CachedResult::default()
        }))
    }

    /// Removes the cached result of an ADD. Also succeeds if the cache has no such entry.
    pub fn remove(&self, key: &AttachmentKey) -> Result<(), HostError> {
        file::remove_if_present(&self.path(key), Durability::Written).map(|_| ())
    }

    /// Removes the unfinished files of earlier dockbridge processes that ended during a write.
    pub fn remove_drafts(&self) {
        let mut paths = file::entries(&self.results).unwrap_or_default();
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        paths.retain(|path| file::is_abandoned_draft(&name(path)));
        paths.iter().for_each(|draft| file::remove_draft(draft));
    }

    /// All readable entries, in any order, and the error if dockbridge cannot read some of the entries.
    pub fn all(&self) -> (Vec<CachedResult>, Result<(), HostError>) {
        self.load_all(|_| true)
    }

    /// All readable entries of a container's interface, sorted by network, and the error if some are unreadable.
    pub fn find(
        &self,
        container: &str,
        interface: &str,
    ) -> (Vec<CachedResult>, Result<(), HostError>) {
        let end = format!("-{container}-{interface}");
        let (mut found, whole) = self.load_all(|path| path.to_string_lossy().ends_with(&end));
        found.retain(|CachedResult { key, .. }| {
            key.container == container && key.interface == interface
        });
        found.sort_by(|one, other| one.key.network.cmp(&other.key.network));
        (found, whole)
    }

    /// Reads the wanted files. Returns the error of a damaged file ([`undamaged`]) only if there is no other error.
    fn load_all(
        &self,
        is_wanted: impl Fn(&Path) -> bool,
    ) -> (Vec<CachedResult>, Result<(), HostError>) {
        let (mut found, mut whole) = (Vec::new(), Ok(()));
        let files = file::entries(&self.results).unwrap_or_else(|error| {
            whole = Err(HostError::new("list", &self.results, error));
            Vec::new()
        });
        for path in files.into_iter().filter(|path| !is_hidden(path) && is_wanted(path)) {
            match load(&path) {
                Ok(value) => found.extend(value.as_ref().and_then(decode)),
                Err(error) if whole.is_ok() || !is_damage(&error) => whole = Err(error),
                Err(_) => {}
            }
        }
        (found, whole)
    }

    /// Path of the cache file. Slashes become `_`, so the file is always in the cache's directory.
    fn path(&self, key: &AttachmentKey) -> PathBuf {
        let AttachmentKey { network, container, interface } = key;
        self.results.join(format!("{network}-{container}-{interface}").replace('/', "_"))
    }
}

/// An entry of the cache. An optional field with an unexpected type is `None`, so that the other fields can be used.
#[derive(Serialize, Deserialize)]
struct Stored {
    kind: String,
    #[serde(rename = "containerId")]
    container: String,
    #[serde(default, deserialize_with = "lenient")]
    config: Option<String>,
    #[serde(rename = "ifName")]
    interface: String,
    #[serde(rename = "networkName")]
    network: String,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    netns: Option<String>,
    #[serde(default, rename = "cniArgs", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "lenient")]
    arguments: Option<Vec<(String, String)>>,
    #[serde(default, rename = "capabilityArgs", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "lenient")]
    capabilities: Option<Map<String, Value>>,
    #[serde(default)]
    result: Value,
    /// Name of the runtime that wrote the entry. libcni does not have this field, and ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    owner: Option<String>,
}

fn load(path: &Path) -> Result<Option<Value>, HostError> {
    let Some(bytes) = file::read_if_present(path, SIZE_LIMIT)? else { return Ok(None) };
    let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let value = serde_json::from_slice(&bytes).map_err(damaged);
    value.map(Some).map_err(|error| HostError::new("read", path, error))
}

/// Turns the error of a damaged file (power loss) into `None` and a warning, because a retry would not help.
pub(in crate::network) fn undamaged<T>(read: Result<T, HostError>) -> Result<Option<T>, HostError> {
    match read {
        Err(error) if is_damage(&error) => {
            let (file, error) = (error.path.display(), &error.source);
            warn!(%file, %error, "a cached CNI result is damaged; continuing without the result");
            Ok(None)
        }
        read => read.map(Some),
    }
}

fn is_damage(error: &HostError) -> bool {
    error.source.kind() == io::ErrorKind::InvalidData
}

pub(super) fn encode(entry: &CachedResult) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Stored {
        kind: KIND.to_owned(),
        container: entry.key.container.clone(),
        config: entry.config.as_ref().map(|config| BASE64_STANDARD.encode(config)),
        interface: entry.key.interface.clone(),
        network: entry.key.network.clone(),
        netns: entry.netns.clone(),
        arguments: Some(entry.arguments.clone()),
        capabilities: Some(entry.capabilities.clone()),
        result: entry.result.clone(),
        owner: entry.ours.then(|| OWNER.to_owned()),
    })
}

pub(super) fn decode(value: &Value) -> Option<CachedResult> {
    let stored = Stored::deserialize(value).ok().filter(|stored| stored.kind == KIND)?;
    if stored.container.is_empty() || stored.interface.is_empty() || stored.network.is_empty() {
        return None;
    }
    let config = stored.config.and_then(|text| BASE64_STANDARD.decode(text).ok());
    let netns = stored.netns.filter(|netns| !netns.is_empty());
    Some(CachedResult {
        key: AttachmentKey {
            network: stored.network,
            container: stored.container,
            interface: stored.interface,
        },
        netns: netns.or_else(|| result::namespace_path(&stored.result)),
        config: config.and_then(|bytes| String::from_utf8(bytes).ok()),
        arguments: stored.arguments.unwrap_or_default(),
        capabilities: stored.capabilities.unwrap_or_default(),
        result: stored.result,
        ours: stored.owner.as_deref() == Some(OWNER),
    })
}

/// Whether the file is hidden: dockbridge writes an entry into a hidden file first, and then renames the file.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

const OWNER: &str = "dockbridge";
const KIND: &str = "cniCacheV1";
const SIZE_LIMIT: u64 = 16 << 20;

#[cfg(test)]
mod tests;

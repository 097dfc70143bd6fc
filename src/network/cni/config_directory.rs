//! Selects the network configuration of a directory: the first usable file in the order of file names. For
//! each refused file, the selection has a reason that the operator sees.

use std::{ffi::OsStr, fmt, fs, io, path::Path, time::Duration};

use super::{
    config::{NetworkConfigList, negotiate_version},
    plugin::Plugins,
};
use crate::{concurrency::blocking::blocking, host::file};

/// The configuration that dockbridge selected in a directory, and the files that it refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    pub selected: Option<SelectedConfig>,
    /// The configuration files with names before the selected one, or all if none is selected.
    pub refused: Vec<Refused>,
    /// Why the directory could not be read.
    pub problem: Option<String>,
}

/// A network configuration that dockbridge can use, and the name of its file.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectedConfig {
    pub file: String,
    pub list: NetworkConfigList,
}

/// A file that dockbridge cannot use as network configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub file: String,
    pub reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.reason)
    }
}

/// Reads a directory and selects a configuration. `timeout` limits each VERSION call of a plugin.
pub async fn select(directory: &Path, plugins: &Plugins, timeout: Duration) -> Selection {
    let path = directory.to_owned();
    let candidates = match blocking(move || candidates(&path)).await {
        Ok(candidates) => candidates,
        Err(error) => return Selection { problem: Some(explain(&error)), ..Selection::default() },
    };
    let mut selection = Selection::default();
    for (file, list) in candidates {
        let negotiated = match list {
            Ok(list) => negotiate(list, plugins, timeout).await,
            Err(reason) => Err(reason),
        };
        match negotiated {
            Ok(list) => {
                selection.selected = Some(SelectedConfig { file, list });
                return selection;
            }
            Err(reason) => selection.refused.push(Refused { file, reason }),
        }
    }
    selection
}

/// All configuration files in order of their names, each parsed or with the reason why it is unusable.
fn candidates(directory: &Path) -> io::Result<Vec<(String, Result<NetworkConfigList, String>)>> {
    let listed = fs::read_dir(directory)?;
    let mut paths = listed.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let is_config = |end: &OsStr| ["conf", "json", LIST].iter().any(|known| end == *known);
    paths.retain(|path| path.extension().is_some_and(is_config) && !path.is_dir());
    paths.sort();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(paths.iter().map(|path| (name(path), read(path))).collect())
}

fn read(path: &Path) -> Result<NetworkConfigList, String> {
    let text = text(path)?;
    if path.extension().is_none_or(|end| end != LIST) {
        return NetworkConfigList::from_single(&text);
    }
    let directory = path.parent().unwrap_or(path);
    NetworkConfigList::from_file(&text, |name| in_folder(&directory.join(name)))
}

/// Contents of the `*.conf` files in a network's folder, ordered by name, as in libcni.
fn in_folder(folder: &Path) -> Result<Vec<String>, String> {
    let name = folder.file_name().unwrap_or_default();
    let refused = |file: &Path, reason: String| {
        let file = Path::new(name).join(file.file_name().unwrap_or_default());
        format!("{}: {reason}", file.display())
    };
    let entries = match file::entries(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(Vec::new()),
        entries => entries,
    };
    let mut paths = entries.map_err(|error| refused(Path::new(""), explain(&error)))?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "conf") && !path.is_dir());
    paths.iter().map(|path| text(path).map_err(|reason| refused(path, reason))).collect()
}

fn text(path: &Path) -> Result<String, String> {
    if !path.metadata().map_err(|e| explain(&e))?.is_file() {
        return Err("not a regular file".to_owned());
    }
    let bytes = file::read_if_present(path, SIZE_LIMIT).map_err(|e| explain(&e.source))?;
    String::from_utf8(bytes.unwrap_or_default()).map_err(|e| e.to_string())
}

/// Selects the version. Fails if VERSION of a plugin fails, or if plugins and configuration share no version.
async fn negotiate(
    list: NetworkConfigList,
    plugins: &Plugins,
    timeout: Duration,
) -> Result<NetworkConfigList, String> {
    let mut supported = Vec::with_capacity(list.plugins.len());
    for plugin in &list.plugins {
        let versions = plugins.versions(&plugin.kind, timeout).await.map_err(|e| e.to_string())?;
        supported.push((plugin.kind.clone(), versions));
    }
    let version = negotiate_version(&list, &supported)?;
    Ok(list.with_version(version))
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "the path does not exist".to_owned(),
        _ => error.to_string(),
    }
}

/// Extension of configuration files with a list of plugins. Other configuration files have a single plugin.
const LIST: &str = "conflist";
const SIZE_LIMIT: u64 = 1 << 20;

#[cfg(test)]
mod tests;

//! Selects the network configuration of a directory, which is the first usable one by file name. The reason
//! why each earlier file was refused is kept for the operator.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    config::{ConfigError, NetworkConfigList, negotiate_version},
    plugin::Plugins,
};
use crate::{concurrency::blocking::blocking, host::file};

/// The selected configuration of a directory, and the refused files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// The one to use, with the version negotiated with its plugins.
    pub selected: Option<SelectedConfig>,
    /// The files before it, which were refused.
    pub refused: Vec<Refused>,
    /// Why the directory could not be read.
    pub problem: Option<String>,
}

/// A usable configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectedConfig {
    pub file: String,
    pub list: NetworkConfigList,
}

/// A file that cannot be used.
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

/// Reads a directory. Runs VERSION of every plugin, each call within `timeout`.
pub async fn select(directory: &Path, plugins: &Plugins, timeout: Duration) -> Selection {
    let path = directory.to_owned();
    let candidates = match blocking(move || candidates(&path)).await {
        Ok(candidates) => candidates,
        Err(error) => return Selection { problem: Some(explain(&error)), ..Selection::default() },
    };
    let mut selection = Selection::default();
    for candidate in candidates {
        let negotiated = match candidate.list {
            Ok(list) => negotiate(list, plugins, timeout).await,
            Err(reason) => Err(reason),
        };
        match negotiated {
            Ok(list) => {
                selection.selected = Some(SelectedConfig { file: candidate.file, list });
                return selection;
            }
            Err(reason) => selection.refused.push(Refused { file: candidate.file, reason }),
        }
    }
    selection
}

struct Candidate {
    file: String,
    list: Result<NetworkConfigList, String>,
}

fn candidates(directory: &Path) -> io::Result<Vec<Candidate>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if Form::of(&path).is_some() && !path.is_dir() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths.iter().map(|path| candidate(path)).collect())
}

fn candidate(path: &Path) -> Candidate {
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Candidate { file, list: read(path) }
}

fn read(path: &Path) -> Result<NetworkConfigList, String> {
    let text = text(path)?;
    let list = match Form::of(path) {
        Some(Form::List) => {
            let directory = path.parent().unwrap_or(path);
            NetworkConfigList::from_file(&text, |name| in_folder(&directory.join(name)))
        }
        _ => NetworkConfigList::from_single(&text),
    };
    list.map_err(|e| e.to_string())
}

/// The texts of the plugins in a network's folder, by file name; libcni reads `*.conf` only.
fn in_folder(folder: &Path) -> Result<Vec<String>, ConfigError> {
    let name = folder.file_name().unwrap_or_default();
    let refused = |file: &Path, reason: String| ConfigError::Folder {
        file: Path::new(name).join(file.file_name().unwrap_or_default()).display().to_string(),
        reason,
    };
    let entries = match fs::read_dir(folder) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(Vec::new());
        }
        entries => entries,
    };
    let entries = entries.and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| refused(Path::new(""), explain(&error)))?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "conf") && !path.is_dir());
    paths.sort();
    paths.iter().map(|path| text(path).map_err(|reason| refused(path, reason))).collect()
}

fn text(path: &Path) -> Result<String, String> {
    // Reading another kind of file could block forever.
    if !path.metadata().map_err(|e| explain(&e))?.is_file() {
        return Err("not a regular file".to_owned());
    }
    let bytes = file::read_if_present(path, SIZE_LIMIT).map_err(|e| explain(&e.source))?;
    String::from_utf8(bytes.unwrap_or_default()).map_err(|e| e.to_string())
}

/// All plugins must be installed and have a version in common with the configuration.
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

enum Form {
    Single,
    List,
}

impl Form {
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "conf" | "json" => Some(Self::Single),
            "conflist" => Some(Self::List),
            _ => None,
        }
    }
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        _ => error.to_string(),
    }
}

const SIZE_LIMIT: u64 = 1 << 20;

#[cfg(test)]
mod tests;

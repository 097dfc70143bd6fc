//! Choosing one configuration of a directory: the first, by file name, that can be used.
//!
//! Why each earlier one was refused is kept; the operator reads it where it matters.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    config::{NetworkList, agree},
    exec::Plugins,
};
use crate::host::file;

/// What a directory offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// The one to use, held to the version agreed with its plugins.
    pub chosen: Option<Chosen>,
    /// Those before it.
    pub refused: Vec<Refused>,
    /// Why nothing could be looked at.
    pub problem: Option<String>,
}

/// A usable configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Its file name.
    pub file: String,
    /// Its content.
    pub list: NetworkList,
}

/// A file that could be the configuration but for the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its file name.
    pub file: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.reason)
    }
}

/// Looks a directory through. Plugins are asked for their versions, each within `patience`.
pub async fn choose(directory: &Path, plugins: &Plugins, patience: Duration) -> Choice {
    let place = directory.to_owned();
    let read = tokio::task::spawn_blocking(move || candidates(&place)).await;
    let candidates = match read.unwrap_or_else(|e| Err(io::Error::other(e))) {
        Ok(candidates) => candidates,
        Err(error) => return Choice { problem: Some(explain(&error)), ..Choice::default() },
    };
    let mut choice = Choice::default();
    for candidate in candidates {
        let judged = match candidate.list {
            Ok(list) => settle(list, plugins, patience).await,
            Err(reason) => Err(reason),
        };
        match judged {
            Ok(list) => {
                choice.chosen = Some(Chosen { file: candidate.file, list });
                return choice;
            }
            Err(reason) => choice.refused.push(Refused { file: candidate.file, reason }),
        }
    }
    choice
}

struct Candidate {
    file: String,
    list: Result<NetworkList, String>,
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

fn read(path: &Path) -> Result<NetworkList, String> {
    // Anything else could make the reader wait for ever.
    if !path.metadata().map_err(|e| explain(&e))?.is_file() {
        return Err("not a regular file".to_owned());
    }
    let bytes = file::read_if_present(path, SIZE_LIMIT).map_err(|e| explain(&e.source))?;
    let text = String::from_utf8(bytes.unwrap_or_default()).map_err(|e| e.to_string())?;
    let list = match Form::of(path) {
        Some(Form::List) => NetworkList::from_list(&text),
        _ => NetworkList::from_single(&text),
    };
    list.map_err(|e| e.to_string())
}

/// All plugins must be there and agree with the configuration on a version.
async fn settle(
    list: NetworkList,
    plugins: &Plugins,
    patience: Duration,
) -> Result<NetworkList, String> {
    let mut spoken = Vec::with_capacity(list.plugins.len());
    for plugin in &list.plugins {
        let versions = plugins.versions(&plugin.kind, patience).await.map_err(|e| e.to_string())?;
        spoken.push((plugin.kind.clone(), versions));
    }
    let version = agree(&list, &spoken)?;
    Ok(list.held_to(version))
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

//! Which device is in which file: all specification files of some directories.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    error::CdiError,
    specification::{Form, Malformed, Specification},
};
use crate::{error::chain, host::file::read_if_present};

/// The devices that some directories describe.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    directories: Vec<PathBuf>,
    /// By full name.
    devices: BTreeMap<String, Entry>,
    /// What could not be read or understood, each a text.
    broken: Vec<String>,
    /// One of the directories exists.
    seen: bool,
}

/// Where a device is described.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The file.
    pub(super) file: PathBuf,
    /// Its content.
    pub(super) specification: Arc<Specification>,
    /// Which device of it.
    pub(super) index: usize,
    /// Of the directory; the higher wins.
    rank: usize,
    /// Another file of the same rank that has it too.
    rival: Option<PathBuf>,
}

impl Catalogue {
    /// Reads every specification file of the directories.
    pub(super) fn read(directories: Vec<PathBuf>) -> Self {
        let mut catalogue = Self::default();
        for (rank, directory) in directories.iter().enumerate() {
            match files(directory) {
                Ok(Some(files)) => {
                    catalogue.seen = true;
                    files.iter().for_each(|(file, form)| catalogue.add(rank, file, *form));
                }
                Ok(None) => {}
                Err(error) => catalogue.broken.push(format!("{}: {error}", directory.display())),
            }
        }
        catalogue.directories = directories;
        catalogue
    }

    /// Everything there is has been read, so what is not here does not exist.
    pub(super) const fn is_complete(&self) -> bool {
        self.seen && self.broken.is_empty()
    }

    /// Where the device of that name is described.
    pub(super) fn find(&self, device: &str) -> Result<&Entry, CdiError> {
        let Some(entry) = self.devices.get(device) else { return Err(self.unknown(device)) };
        match &entry.rival {
            None => Ok(entry),
            Some(rival) => Err(CdiError::Twice {
                device: device.to_owned(),
                first: entry.file.clone(),
                second: rival.clone(),
            }),
        }
    }

    fn unknown(&self, device: &str) -> CdiError {
        let directories: Vec<_> =
            self.directories.iter().map(|place| place.display().to_string()).collect();
        let mut broken = String::new();
        for problem in self.broken.iter().take(TOLD) {
            // Writing into a text cannot fail.
            let _ = write!(broken, "; unreadable: {problem}");
        }
        let directories = directories.join(", ");
        CdiError::Unknown { device: device.to_owned(), directories, broken }
    }

    fn add(&mut self, rank: usize, file: &Path, form: Form) {
        let specification = match load(file, form) {
            Ok(Some(specification)) => Arc::new(specification),
            // Gone since the directory was listed.
            Ok(None) => return,
            Err(Malformed { line, reason }) => {
                let line = line.map(|line| format!(" line {line}")).unwrap_or_default();
                return self.broken.push(format!("{}{line}: {reason}", file.display()));
            }
        };
        for (index, device) in specification.devices.iter().enumerate() {
            let name = format!("{}={}", specification.kind, device.name);
            match self.devices.get_mut(&name) {
                Some(known) if known.rank == rank => known.rival = Some(file.to_owned()),
                _ => {
                    let (file, specification) = (file.to_owned(), Arc::clone(&specification));
                    let entry = Entry { file, specification, index, rank, rival: None };
                    self.devices.insert(name, entry);
                }
            }
        }
    }
}

/// Specification files by name; none when there is no such directory.
fn files(directory: &Path) -> io::Result<Option<Vec<(PathBuf, Form)>>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if let Some(form) = form(&path)
            && !path.is_dir()
        {
            files.push((path, form));
        }
    }
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(Some(files))
}

fn form(path: &Path) -> Option<Form> {
    match path.extension()?.to_str()? {
        "json" => Some(Form::Json),
        "yaml" | "yml" => Some(Form::Yaml),
        _ => None,
    }
}

fn load(file: &Path, form: Form) -> Result<Option<Specification>, Malformed> {
    let wrong = |reason: String| Malformed { line: None, reason };
    let bytes = read_if_present(file, LONGEST).map_err(|error| wrong(chain(&error)))?;
    let Some(bytes) = bytes else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
    Specification::parse(form, &text).map(Some)
}

/// Vendors' files have some dozens of kilobytes.
const LONGEST: u64 = 4 << 20;
/// How many unreadable files one refusal tells of.
const TOLD: usize = 5;

//! Finds a CDI device by name in the specification files of some directories.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::specification::{Format, Malformed, Specification};
use crate::{
    error::{Failure, chain},
    host::file::{entries, read_if_present},
};

#[derive(Debug, Default)]
pub(super) struct DeviceIndex {
    directories: Vec<PathBuf>,
    devices: BTreeMap<String, IndexedDevice>,
    /// The errors of files and directories that could not be read or parsed.
    errors: Vec<String>,
    has_directory: bool,
}

#[derive(Clone, Debug)]
pub(super) struct IndexedDevice {
    pub(super) file: PathBuf,
    pub(super) specification: Arc<Specification>,
    pub(super) position_in_file: usize,
    /// The index of the file's directory. A device in a later directory replaces the same device in an earlier one.
    priority: usize,
    /// Another file in the same directory that also defines the device.
    duplicate: Option<PathBuf>,
}

impl DeviceIndex {
    /// Reads every specification file of the directories.
    pub(super) fn read(directories: Vec<PathBuf>) -> Self {
        let mut index = Self::default();
        for (priority, directory) in directories.iter().enumerate() {
            index.has_directory |= directory.is_dir();
            match entries(directory) {
                Ok(paths) => paths.iter().for_each(|file| index.add(priority, file)),
                Err(error) => index.errors.push(format!("{}: {error}", directory.display())),
            }
        }
        index.directories = directories;
        index
    }

    /// Whether there is a directory and every specification file was read. If true, a device that is not in the
    /// index does not exist.
    pub(super) const fn is_complete(&self) -> bool {
        self.has_directory && self.errors.is_empty()
    }

    pub(super) fn find(&self, device: &str) -> Result<&IndexedDevice, Failure> {
        let Some(entry) = self.devices.get(device) else { return Err(self.unknown(device)) };
        match &entry.duplicate {
            None => Ok(entry),
            Some(duplicate) => Err(Failure::unmet(format!(
                "CDI device {device:?} is defined twice: in {} and in {}",
                entry.file.display(),
                duplicate.display()
            ))),
        }
    }

    fn unknown(&self, device: &str) -> Failure {
        let directories: Vec<_> =
            self.directories.iter().map(|directory| directory.display().to_string()).collect();
        let errors = self.errors.iter().take(MAX_ERRORS_SHOWN);
        let errors: String = errors.map(|problem| format!("; unreadable: {problem}")).collect();
        let directories = directories.join(", ");
        Failure::unmet(format!(
            "CDI device {device:?} is not defined in any specification of {directories}{errors}"
        ))
    }

    /// Adds the devices of `file`, if its name ends in `.json`, `.yaml` or `.yml` and it is not a directory.
    fn add(&mut self, priority: usize, file: &Path) {
        let Some(format) = format(file).filter(|_| !file.is_dir()) else { return };
        let specification = match load(file, format) {
            Ok(Some(specification)) => Arc::new(specification),
            // The file was removed after the directory was listed.
            Ok(None) => return,
            Err(Malformed { line, reason }) => {
                let line = line.map(|line| format!(" line {line}")).unwrap_or_default();
                return self.errors.push(format!("{}{line}: {reason}", file.display()));
            }
        };
        for (position_in_file, device) in specification.devices.iter().enumerate() {
            let name = format!("{}={}", specification.kind, device.name);
            match self.devices.get_mut(&name) {
                Some(known) if known.priority == priority => {
                    known.duplicate = Some(file.to_owned());
                }
                _ => {
                    let (file, specification) = (file.to_owned(), Arc::clone(&specification));
                    let entry = IndexedDevice {
                        file,
                        specification,
                        position_in_file,
                        priority,
                        duplicate: None,
                    };
                    self.devices.insert(name, entry);
                }
            }
        }
    }
}

fn format(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()? {
        "json" => Some(Format::Json),
        "yaml" | "yml" => Some(Format::Yaml),
        _ => None,
    }
}

fn load(file: &Path, format: Format) -> Result<Option<Specification>, Malformed> {
    let malformed = |reason: String| Malformed { line: None, reason };
    let bytes = read_if_present(file, MAX_BYTES).map_err(|error| malformed(chain(&error)))?;
    let Some(bytes) = bytes else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|error| malformed(error.to_string()))?;
    Specification::parse(format, &text).map(Some)
}

/// Largest specification file in bytes.
const MAX_BYTES: u64 = 4 << 20;
const MAX_ERRORS_SHOWN: usize = 5;

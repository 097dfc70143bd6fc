//! A file for each running command of ExecSync. The next dockbridge process reads the files and kills the commands.
//!
//! A marker in the environment is not enough to find commands that still run: processes that a finished command
//! left on purpose also have the marker. So each command has a file while it runs, and files that exist when
//! dockbridge starts are from an earlier dockbridge process. A file also has the engine's id of the exec, because
//! the engine may still be starting the command. Only one dockbridge process at a time uses the directory. Files
//! are not synced: they need not survive a reboot.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use tracing::warn;

use super::process::Exec;
use crate::{
    concurrency::blocking::blocking,
    engine::client::Engine,
    host::file::{self, Durability},
    model::record::ContainerRecord,
};

/// The directory with the command records, and the commands that an earlier dockbridge process has left.
/// Clones share the list of commands.
#[derive(Clone, Debug)]
pub struct CommandRecords {
    place: PathBuf,
    left: Arc<Mutex<Vec<AbandonedCommand>>>,
}

/// The record of a command that runs, or that dockbridge is about to start. Dropping the record keeps its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRecord {
    pub container: String,
    /// The marker for the environment of the command, as `NAME=value`.
    pub variable: String,
    file: PathBuf,
}

/// A command that may have been running when the dockbridge process that started it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbandonedCommand {
    pub record: CommandRecord,
    /// The engine's id of the exec. Empty if the file has no valid id, for example because it was not written
    /// completely.
    exec: String,
}

impl CommandRecords {
    /// Reads the records that an earlier dockbridge process has left in `place`, and creates `place` if it is missing.
    pub fn open(place: PathBuf) -> Self {
        let names = fs::read_dir(&place).into_iter().flatten().flatten();
        let left = names.filter_map(|entry| AbandonedCommand::read(&entry.path())).collect();
        if let Err(error) = file::ensure_directory(&place, MODE) {
            warn!(%error, "cannot create the directory for records of ExecSync commands; a command without a record keeps running if dockbridge crashes");
        }
        Self { place, left: Arc::new(Mutex::new(left)) }
    }

    /// Makes a record of a command that will run in the container. `number` must be unique.
    /// [`CommandRecord::write`] writes the record to disk.
    pub fn record(&self, container: &str, number: u128) -> CommandRecord {
        let file = self.place.join(format!("{container}.{number:032x}"));
        let variable = format!("{MARKER}={number:032x}");
        CommandRecord { container: container.to_owned(), variable, file }
    }

    /// The commands that an earlier dockbridge process may have left running. A second call returns none.
    pub fn left(&self) -> Vec<AbandonedCommand> {
        std::mem::take(&mut *self.left.lock())
    }
}

impl CommandRecord {
    /// Writes the record. Must precede the exec's start. Only logs a failed write: the command can still run.
    pub async fn write(&self, exec: &str) {
        let (file, exec) = (self.file.clone(), exec.to_owned());
        if let Err(error) = blocking(move || write(&file, &exec)).await {
            let container = &self.container;
            warn!(container, %error, "cannot write the record of an ExecSync command; starting the command anyway, although a crash of dockbridge would leave it running");
        }
    }

    /// Removes the record. Must be called when no process of the command is left that dockbridge has to end.
    pub async fn done(self) {
        let removed = blocking(move || file::remove_if_present(&self.file, Durability::Written));
        if let Err(error) = removed.await {
            warn!(%error, "cannot remove the record of a finished ExecSync command; the next start of dockbridge kills processes that the command has left");
        }
    }
}

impl AbandonedCommand {
    /// The exec that runs the command in `container`, which must be a running container.
    pub fn exec(&self, engine: &Engine, container: &ContainerRecord) -> Exec {
        let marker = Some(self.record.variable.clone());
        Exec::of(engine, self.exec.clone(), false, container, marker)
    }

    fn read(file: &Path) -> Option<Self> {
        let (container, number) = file.file_name()?.to_str()?.split_once('.')?;
        let whole = container.len() == 64 && number.len() == 32;
        if !(whole && is_hexadecimal(container) && is_hexadecimal(number)) {
            return None;
        }
        let variable = format!("{MARKER}={number}");
        let record =
            CommandRecord { container: container.to_owned(), variable, file: file.to_owned() };
        let exec = file::read_if_present(file, LARGEST_RECORD).ok().flatten().unwrap_or_default();
        let exec = String::from_utf8(exec).unwrap_or_default();
        let is_id = exec.len() == 64 && is_hexadecimal(&exec);
        Some(Self { record, exec: if is_id { exec } else { String::new() } })
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Writes a record. If somebody has deleted the directory of the records, creates it again.
fn write(record: &Path, exec: &str) -> io::Result<()> {
    match (fs::write(record, exec), record.parent()) {
        (Err(error), Some(place)) if error.kind() == io::ErrorKind::NotFound => {
            file::ensure_directory(place, MODE).map_err(|error| error.source)?;
            fs::write(record, exec)
        }
        (written, _) => written,
    }
}

/// The environment variable that marks a command's processes.
const MARKER: &str = "DOCKBRIDGE_EXEC";

/// The largest record that is read, in bytes; the id of an exec has 64.
const LARGEST_RECORD: u64 = 4096;

/// The mode of the directory of records: other users need not know which commands run.
const MODE: u32 = 0o700;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_under_way_is_left_and_what_is_done_is_not() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("execs");
        let (one, two) = ("a".repeat(64), "b".repeat(64));
        let records = CommandRecords::open(place.clone());
        let done = records.record(&one, 1);
        done.write("e1").await;
        let open = records.record(&two, 2);
        open.write(&"e".repeat(64)).await;
        assert_eq!(open.variable, "DOCKBRIDGE_EXEC=00000000000000000000000000000002");
        assert!(records.left().is_empty());
        done.done().await;
        for rubbish in ["x", "a.b", ".", &format!("{one}.{}", "g".repeat(32))] {
            let _ = fs::write(place.join(rubbish), "");
        }
        let next = CommandRecords::open(place.clone());
        let left = next.left();
        let exec = "e".repeat(64);
        assert_eq!(left, [AbandonedCommand { record: open, exec }]);
        assert!(next.left().is_empty(), "returned once");
        assert_eq!(left[0].record.container, two);
        left[0].record.clone().done().await;
        assert!(CommandRecords::open(place).left().is_empty());
    }

    #[tokio::test]
    async fn a_place_that_was_deleted_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("state/execs");
        let records = CommandRecords::open(place.clone());
        fs::remove_dir_all(root.path().join("state")).unwrap();
        records.record(&"a".repeat(64), 1).write("e").await;
        assert_eq!(CommandRecords::open(place).left().len(), 1);
    }

    #[tokio::test]
    async fn a_place_that_cannot_be_written_stops_no_command() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        let record = CommandRecords::open(file.join("below")).record("c", 3);
        record.write("e").await;
        assert!(record.variable.starts_with("DOCKBRIDGE_EXEC="));
        record.done().await;
    }
}

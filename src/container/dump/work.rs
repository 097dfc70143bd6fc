//! The detached program: freezes the container, lets the runtime and CRIU save its processes, copies its
//! changed files, and thaws it. Nobody kills this program, and it has no deadline after the freeze.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use super::{
    order::{self, Failure, ORDER, Order, REPORT, Report},
    rootfs_diff,
};
use crate::{
    error::chain,
    host::{detached, error::HostError},
};

/// The program's directory, if these words start it.
pub fn directory(words: &[OsString]) -> Option<PathBuf> {
    match words {
        [_, command, directory] if command == COMMAND => Some(directory.into()),
        _ => None,
    }
}

/// Carries out the order in the directory, and writes the report.
pub fn run(directory: &Path) -> ExitCode {
    detached::ignore_requests_to_end();
    // Without an order, the server that wanted the checkpoint has ended.
    let Ok(Some(order)) = order::read::<Order>(directory, ORDER) else { return ExitCode::FAILURE };
    let begun = Instant::now();
    let failure = dump(&order, directory).err();
    // If this fails, the server thaws the container.
    let _ = order.freezer.thaw();
    let stood_still_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    match order::write(directory, REPORT, &Report { stood_still_ms, failure }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn dump(order: &Order, directory: &Path) -> Result<(), Failure> {
    order.freezer.freeze(FREEZE_LIMIT).map_err(|error| other(&error))?;
    if !detached::run(&order.command).map_err(|error| other(&error))? {
        return Err(Failure::Runtime);
    }
    rootfs_diff::write(&order.layer, directory).map_err(|source| {
        other(&HostError::new("copy the changed files of the container:", &order.layer, source))
    })
}

fn other(error: &HostError) -> Failure {
    let is_disk_full = error.source.kind() == io::ErrorKind::StorageFull;
    Failure::Other { reason: chain(error), is_disk_full }
}

/// The command that starts this program. It is not for people, so the command line does not list it.
pub(super) const COMMAND: &str = "dump-container";
/// How long the processes may take to stand still. A process that waits for a dead disk does not.
const FREEZE_LIMIT: Duration = Duration::from_secs(10);

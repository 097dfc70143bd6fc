//! The detached program: freezes the containers, lets the OCI runtime and CRIU save the processes of each
//! container, copies the changed files, and thaws all containers. The program has no deadline after the freeze.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use super::{
    order::{self, Cause, FROZEN, Failure, ORDER, Order, Part, REPORT, Report, UNWANTED},
    rootfs_diff,
};
use crate::{
    error::{Kind, WithKind as _, chain},
    host::{
        detached,
        error::HostError,
        file::{self, Durability},
    },
};

/// The directory of the detached program, if `words` is the command line that starts it.
pub fn directory(words: &[OsString]) -> Option<PathBuf> {
    match words {
        [_, command, directory] if command == COMMAND => Some(directory.into()),
        _ => None,
    }
}

/// Carries out the order in `directory`, and writes the report.
pub fn run(directory: &Path) -> ExitCode {
    detached::ignore_requests_to_end();
    // The next dockbridge process renames the order, so that a program that starts late does nothing.
    let Ok(Some(order)) = order::read::<Order>(directory, ORDER) else { return ExitCode::FAILURE };
    let begun = Instant::now();
    let failure = dump(&order, directory).err();
    for part in &order.parts {
        // If the container cannot be thawed here, dockbridge thaws it.
        let _ = part.thaw();
    }
    let frozen_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    match order::write(directory, REPORT, &Report { frozen_ms, failure }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == Kind::ResourceExhausted => NO_SPACE.into(),
        Err(_) => ExitCode::FAILURE,
    }
}

fn dump(order: &Order, directory: &Path) -> Result<(), Failure> {
    let each = |step: &dyn Fn(&Part) -> Result<(), Cause>| {
        order.parts.iter().try_for_each(|part| {
            step(part).map_err(|cause| Failure { container: part.container.clone(), cause })
        })
    };
    each(&freeze)?;
    each(&|part| match directory.join(UNWANTED).exists() {
        true => Err(Cause::Unwanted),
        false => save(part),
    })?;
    each(&|part| match part.freezer.is_frozen() {
        Ok(false) => {
            let reason = "the container was thawed before the container or pod checkpoint ended, for example by docker unpause".to_owned();
            Err(Cause::Other { reason, is_disk_full: false })
        }
        _ => Ok(()),
    })
}

fn freeze(part: &Part) -> Result<(), Cause> {
    if part.freezer.is_frozen().unwrap_or_default() {
        return Err(Cause::Paused);
    }
    file::replace(&part.directory.join(FROZEN), &[], Durability::Written)
        .and_then(|()| part.freezer.freeze(FREEZE_LIMIT))
        .map_err(|error| other(&error))
}

fn save(part: &Part) -> Result<(), Cause> {
    if !detached::run(&part.command).map_err(|error| other(&error))? {
        return Err(Cause::Runtime);
    }
    rootfs_diff::write(&part.layer, &part.directory).map_err(|source| {
        other(&HostError::new("copy the changed files of the container:", &part.layer, source))
    })
}

fn other(error: &HostError) -> Cause {
    let is_disk_full = error.kind() == Kind::ResourceExhausted;
    Cause::Other { reason: chain(error), is_disk_full }
}

/// The command that starts the detached program. Only dockbridge uses this command, so `--help` does not list it.
pub(super) const COMMAND: &str = "dump-container";
/// The exit code of the detached program if the disk has no space for its report.
pub(super) const NO_SPACE: u8 = 28;
/// How long the processes of a container may take to freeze. A process that waits for a dead disk does not freeze.
pub(super) const FREEZE_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    /// Uses files instead of a cgroup.
    #[test]
    fn a_container_that_somebody_has_paused_stays_paused() {
        let place = tempfile::tempdir().unwrap();
        let switch = place.path().join("freezer.state");
        fs::write(&switch, "FROZEN").unwrap();
        let part = json!({
            "container": "a", "directory": place.path(), "command": ["false"], "layer": "/",
            "freezer": { "directory": place.path(), "is_v2": false },
        });
        let order: Order =
            serde_json::from_value(json!({ "parts": [part], "places": [] })).unwrap();
        order::write(place.path(), ORDER, &order).unwrap();
        run(place.path());
        let report: Report = order::read(place.path(), REPORT).unwrap().unwrap();
        assert_eq!(report.failure.map(|failure| failure.cause), Some(Cause::Paused));
        assert_eq!(fs::read_to_string(&switch).unwrap(), "FROZEN");
    }

    #[test]
    fn a_container_that_somebody_lets_continue_is_not_saved() {
        for (state, is_saved) in [("THAWED", false), ("FROZEN", true)] {
            let place = tempfile::tempdir().unwrap();
            let (switch, layer) = (place.path().join("freezer.state"), place.path().join("layer"));
            fs::write(&switch, "THAWED").unwrap();
            fs::create_dir(&layer).unwrap();
            let runtime = format!("echo {state} >{}", switch.display());
            let part = json!({
                "container": "a", "directory": place.path(), "command": ["sh", "-c", runtime], "layer": layer,
                "freezer": { "directory": place.path(), "is_v2": false },
            });
            let order = json!({ "parts": [part], "places": [] });
            let dumped = dump(&serde_json::from_value(order).unwrap(), place.path());
            assert_eq!(dumped.is_ok(), is_saved, "{dumped:?}");
        }
    }
}

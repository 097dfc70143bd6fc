//! Freezes and thaws all processes of a cgroup.

use std::{
    io,
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{
    cgroup::{self, Cgroup, Hierarchy},
    error::{HostError, OrCannot as _},
};

/// The freezer of one cgroup. Serializable, because another dockbridge process may have to thaw the cgroup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freezer {
    directory: PathBuf,
    is_v2: bool,
}

impl Freezer {
    /// The freezer of a cgroup. None if the cgroup does not exist, or its hierarchy has no freezer.
    pub fn of(group: &Cgroup) -> Option<Self> {
        let (hierarchy, directory) = group.directory("freezer")?;
        let freezer = Self { directory: directory.to_owned(), is_v2: hierarchy == Hierarchy::V2 };
        freezer.directory.join(freezer.switch()).exists().then_some(freezer)
    }

    /// Freezes all processes of the cgroup, and returns when all of them have stopped.
    ///
    /// # Errors
    /// The cgroup's files cannot be read or written, for example because the cgroup does not exist, or a process does
    /// not stop within `limit`. After an error, some processes may be frozen, and the caller must thaw the cgroup.
    pub fn freeze(&self, limit: Duration) -> Result<(), HostError> {
        let until = Instant::now() + limit;
        loop {
            // Cgroup v1 retries a process that could not be frozen only when the state is written again.
            self.set(true)?;
            if self.is_complete().or_cannot("freeze", &self.directory)? {
                return Ok(());
            }
            if Instant::now() > until {
                let late =
                    io::Error::new(io::ErrorKind::TimedOut, "a process did not freeze in time");
                return Err(HostError::new("freeze", &self.directory, late));
            }
            sleep(PAUSE);
        }
    }

    /// Whether the cgroup is frozen, or is being frozen.
    pub fn is_frozen(&self) -> io::Result<bool> {
        let state = cgroup::read(&self.directory, self.switch())?;
        Ok(!["0", "THAWED"].contains(&state.as_str()))
    }

    /// Thaws all processes of the cgroup, if it exists and they are frozen.
    pub fn thaw(&self) -> Result<(), HostError> {
        match self.set(false) {
            // The kernel returns ENODEV if the cgroup is being removed.
            Err(error) if error.is_not_found() || !self.directory.exists() => Ok(()),
            done => done,
        }
    }

    fn set(&self, frozen: bool) -> Result<(), HostError> {
        let value = match (self.is_v2, frozen) {
            (true, true) => "1",
            (true, false) => "0",
            (false, true) => "FROZEN",
            (false, false) => "THAWED",
        };
        cgroup::write(&self.directory, self.switch(), value)
    }

    fn is_complete(&self) -> io::Result<bool> {
        if self.is_v2 {
            let events = cgroup::read(&self.directory, "cgroup.events")?;
            return Ok(events.lines().any(|line| line == "frozen 1"));
        }
        Ok(cgroup::read(&self.directory, self.switch())? == "FROZEN")
    }

    const fn switch(&self) -> &'static str {
        if self.is_v2 { "cgroup.freeze" } else { "freezer.state" }
    }
}

const PAUSE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn freezer(is_v2: bool) -> (tempfile::TempDir, Freezer) {
        let place = tempfile::tempdir().unwrap();
        let freezer = Freezer { directory: place.path().to_owned(), is_v2 };
        (place, freezer)
    }

    #[test]
    fn both_versions_are_frozen_and_thawed() {
        let (place, v1) = freezer(false);
        fs::write(place.path().join("freezer.state"), "").unwrap();
        v1.freeze(Duration::ZERO).unwrap();
        assert!(v1.is_frozen().unwrap());
        v1.thaw().unwrap();
        let state = fs::read_to_string(place.path().join("freezer.state")).unwrap();
        assert!(state.starts_with("THAWED\n"), "{state}");

        let (place, v2) = freezer(true);
        fs::write(place.path().join("cgroup.freeze"), "").unwrap();
        fs::write(place.path().join("cgroup.events"), "populated 1\nfrozen 1\n").unwrap();
        v2.freeze(Duration::ZERO).unwrap();
        assert_eq!(fs::read_to_string(place.path().join("cgroup.freeze")).unwrap(), "1\n");
        fs::write(place.path().join("cgroup.events"), "populated 1\nfrozen 0\n").unwrap();
        let late = v2.freeze(Duration::ZERO).unwrap_err();
        assert_eq!(late.source.kind(), io::ErrorKind::TimedOut);
        assert!(v2.is_frozen().unwrap());
        v2.thaw().unwrap();
        assert!(!v2.is_frozen().unwrap());
        assert_eq!(fs::read_to_string(place.path().join("cgroup.freeze")).unwrap(), "0\n");
    }

    #[test]
    fn a_cgroup_that_is_gone_is_thawed() {
        let (place, freezer) = freezer(false);
        drop(place);
        freezer.thaw().unwrap();
        assert!(freezer.freeze(Duration::ZERO).unwrap_err().is_not_found());
    }
}

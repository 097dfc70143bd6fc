//! Reads the process table: the parent, session, cgroup and other properties of each process.
//!
//! A process that ends while its files are read counts as missing. This module caches nothing.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::error::{HostError, OrCannot as _};

/// Identifies a process by its pid and start time, because a pid may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    pub pid: u32,
    /// When the process started, in clock ticks since boot.
    pub started: u64,
}

/// A process, and its relations to other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub who: Identity,
    /// The pid of the process's parent, or of the process that has adopted it.
    pub parent: u32,
    /// The pid of the leader of the process's group; the leader may have ended.
    pub group: u32,
    /// The pid of the leader of the process's session; the leader may have ended.
    pub session: u32,
    pub is_alive: bool,
}

/// A process table, mounted at some path. A `Processes` is cheap to clone.
#[derive(Clone, Debug)]
pub struct Processes {
    root: PathBuf,
}

impl Processes {
    /// The process table that is mounted at `root`: `/proc`, except in tests.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The pids of root's processes with this name (at most 15 bytes) in dockbridge's mount namespace.
    pub fn find_services(&self, name: &str) -> Vec<u32> {
        let all = self.all().unwrap_or_default();
        let pids = all.iter().map(|process| process.who.pid);
        pids.filter(|pid| {
            self.text(*pid, "comm").is_some_and(|comm| comm.trim_end() == name)
                && self.is_of_host(*pid)
        })
        .collect()
    }

    /// Whether the process belongs to the user root and is in dockbridge's mount namespace: a container may run a
    /// process with the same name.
    pub fn is_of_host(&self, pid: u32) -> bool {
        let facts = fs::metadata(self.root.join(pid.to_string()));
        facts.is_ok_and(|facts| facts.uid() == 0) && self.has_our_mounts(pid)
    }

    /// How long ago the process started. None if the time since boot cannot be read or is less than the start time.
    pub fn age(&self, who: Identity) -> Option<Duration> {
        let text = fs::read_to_string(self.root.join("uptime")).ok()?;
        let since_boot = Duration::try_from_secs_f64(text.split(' ').next()?.parse().ok()?).ok()?;
        let started = Duration::from_millis(who.started.checked_mul(MILLISECONDS_PER_TICK)?);
        // lxcfs shows the uptime of an LXC container, which can be less than `started`.
        since_boot.checked_sub(started)
    }

    fn has_our_mounts(&self, pid: u32) -> bool {
        let mounts = |place: &Path| fs::read_link(place.join("ns/mnt")).ok();
        mounts(&self.root.join(pid.to_string())) == mounts(&self.root.join("self"))
    }

    /// All processes of the table, also zombies.
    pub fn all(&self) -> Result<Vec<Process>, HostError> {
        let pids = self.pids().or_cannot("list processes in", &self.root)?;
        Ok(pids.into_iter().filter_map(|pid| self.get(pid)).collect())
    }

    pub(super) fn pids(&self) -> io::Result<Vec<u32>> {
        pids_of(fs::read_dir(&self.root)?.map(|entry| Ok(entry?.file_name())))
    }

    /// The process with this pid, if it exists.
    pub fn get(&self, pid: u32) -> Option<Process> {
        process(pid, &self.text(pid, "stat")?)
    }

    /// The words of the process's command line. Empty if the process has ended or is a thread of the kernel.
    pub fn command_line(&self, pid: u32) -> Vec<String> {
        let bytes = self.bytes(pid, "cmdline").unwrap_or_default();
        let words = bytes.strip_suffix(&[0]).unwrap_or(&bytes).split(|byte| *byte == 0);
        let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
        if bytes.is_empty() { Vec::new() } else { words.collect() }
    }

    /// The executable of a process. None if the process has ended or is a thread of the kernel, or if access is denied.
    pub fn executable(&self, pid: u32) -> Option<PathBuf> {
        fs::read_link(self.path(pid, "exe")).ok()
    }

    /// Whether `/proc/<pid>/cgroup` contains `name`.
    pub fn is_in_cgroup(&self, pid: u32, name: &str) -> bool {
        self.text(pid, "cgroup").is_some_and(|groups| groups.contains(name))
    }

    /// The value of a variable in the process's environment; `Some(None)` if not set. None if the environment
    /// is unreadable, or empty, as it is for a moment during every execve and in a process without variables.
    pub fn variable(&self, pid: u32, name: &str) -> Option<Option<String>> {
        let variables = self.text(pid, "environ").filter(|text| !text.is_empty())?;
        let value = |one: &str| Some(one.strip_prefix(name)?.strip_prefix('=')?.to_owned());
        Some(variables.split('\0').find_map(value))
    }

    /// The pipes of the process's standard output and error, by their names in `/proc`.
    pub fn output_pipes(&self, pid: u32) -> Vec<String> {
        let targets = ["1", "2"].map(|fd| fs::read_link(self.path(pid, "fd").join(fd)).ok());
        let name = |target: PathBuf| target.to_str().map(str::to_owned);
        let names = targets.into_iter().flatten().filter_map(name);
        names.filter(|name| name.starts_with("pipe:[")).collect()
    }

    /// Whether a process in dockbridge's mount namespace has its current directory at or below `directory`, a path
    /// without links. Also true if the table cannot be read.
    pub fn has_in(&self, directory: &Path) -> bool {
        let Ok(pids) = self.pids() else { return true };
        // An ended process has no current directory, even if its parent has not waited for it.
        let current_directory = |pid| fs::read_link(self.path(pid, "cwd"));
        let is_there = |pid| current_directory(pid).is_ok_and(|it| it.starts_with(directory));
        pids.into_iter().any(|pid| is_there(pid) && self.has_our_mounts(pid))
    }

    fn path(&self, pid: u32, name: &str) -> PathBuf {
        self.root.join(pid.to_string()).join(name)
    }

    fn text(&self, pid: u32, name: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bytes(pid, name)?).into_owned())
    }

    fn bytes(&self, pid: u32, name: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(1024);
        let file = File::open(self.path(pid, name)).ok()?;
        file.take(LARGEST_FILE).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// The pids among directory entries. Fails on the first error, because `ReadDir` returns no entries after an error.
pub(super) fn pids_of(
    mut names: impl Iterator<Item = io::Result<OsString>>,
) -> io::Result<Vec<u32>> {
    names.try_fold(Vec::new(), |mut pids, name| {
        pids.extend(name?.to_str().and_then(|name| name.parse::<u32>().ok()));
        Ok(pids)
    })
}

/// The values of the flag `name` in a command line, in the forms `--name=value` and `--name value`.
pub fn flag_values<'a>(words: &'a [String], name: &str) -> Vec<&'a str> {
    let next = words.iter().skip(1).map(Some).chain([None]);
    let values =
        words.iter().zip(next).filter_map(|(word, next)| match word.strip_prefix(name)? {
            "" => next.map(String::as_str),
            rest => rest.strip_prefix('='),
        });
    values.collect()
}

/// Parses `/proc/<pid>/stat`: the pid, the name in parentheses (a name may have parentheses), then fields.
pub(super) fn process(pid: u32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().unwrap_or(0);
    let session = fields.next()?.parse().unwrap_or(0);
    let started = fields.nth(FIELDS_TO_START)?.parse().ok()?;
    let is_alive = !matches!(state, "Z" | "X" | "x");
    Some(Process { who: Identity { pid, started }, parent, group, session, is_alive })
}

/// How many fields are between the session and the start time.
const FIELDS_TO_START: usize = 15;

/// At most this many bytes of a process's file are read. The rest of a larger file is ignored.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

/// The kernel reports start times in hundredths of a second.
const MILLISECONDS_PER_TICK: u64 = 10;

#[cfg(test)]
mod tests;

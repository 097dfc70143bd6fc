//! The process table: parents, sessions, cgroups.
//!
//! A process that ends while it is read counts as missing. Nothing is cached.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::error::{HostError, OrCannot as _};

/// Identifies a process. A pid may be reused, but not with the same start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub started: u64,
}

/// A process and its relations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub who: Identity,
    /// Pid of its parent, or of the process that adopted it.
    pub parent: u32,
    /// Pid of the leader of its process group, which may have ended.
    pub group: u32,
    /// Pid of the leader of its session, which may have ended.
    pub session: u32,
    /// Whether it runs; false for a zombie.
    pub is_alive: bool,
}

/// A process table, mounted at some path. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Processes {
    root: PathBuf,
}

impl Processes {
    /// The table mounted at `root`, which is `/proc` outside of tests.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Pids of root's processes with this name, which the kernel cuts after 15 bytes, and with the same
    /// mounts as dockbridge.
    pub fn find_services(&self, name: &str) -> Vec<u32> {
        let all = self.all().unwrap_or_default();
        let pids = all.iter().map(|process| process.who.pid);
        pids.filter(|pid| {
            self.text(*pid, "comm").is_some_and(|comm| comm.trim_end() == name)
                && self.is_of_host(*pid)
        })
        .collect()
    }

    /// Whether this is a process of root with the same mounts as dockbridge. A process of a container has
    /// other mounts, so it cannot imitate one.
    pub fn is_of_host(&self, pid: u32) -> bool {
        let facts = fs::metadata(self.root.join(pid.to_string()));
        facts.is_ok_and(|facts| facts.uid() == 0) && self.has_our_mounts(pid)
    }

    fn has_our_mounts(&self, pid: u32) -> bool {
        let mounts = |place: &Path| fs::read_link(place.join("ns/mnt")).ok();
        mounts(&self.root.join(pid.to_string())) == mounts(&self.root.join("self"))
    }

    /// Every process.
    pub fn all(&self) -> Result<Vec<Process>, HostError> {
        let pids = self.pids().or_cannot("list processes in", &self.root)?;
        Ok(pids.into_iter().filter_map(|pid| self.get(pid)).collect())
    }

    /// The pid of every process.
    pub(super) fn pids(&self) -> io::Result<Vec<u32>> {
        pids_of(fs::read_dir(&self.root)?.map(|entry| Ok(entry?.file_name())))
    }

    /// The process with this pid, if there is one.
    pub fn get(&self, pid: u32) -> Option<Process> {
        process(pid, &self.text(pid, "stat")?)
    }

    /// The words of its command line, including the program. Empty if the process has ended.
    pub fn command_line(&self, pid: u32) -> Vec<String> {
        let bytes = self.bytes(pid, "cmdline").unwrap_or_default();
        let words = bytes.strip_suffix(&[0]).unwrap_or(&bytes).split(|byte| *byte == 0);
        let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
        if bytes.is_empty() { Vec::new() } else { words.collect() }
    }

    /// The executable of a process. None if it has ended or access is denied.
    pub fn executable(&self, pid: u32) -> Option<PathBuf> {
        fs::read_link(self.path(pid, "exe")).ok()
    }

    /// Whether a component of its cgroup path contains `name`.
    pub fn is_in_cgroup(&self, pid: u32, name: &str) -> bool {
        self.text(pid, "cgroup").is_some_and(|groups| groups.contains(name))
    }

    /// The value of a variable in its environment, if it has one. None while its environment is empty: for a
    /// moment during every execve, and always for a process that was started without one.
    pub fn variable(&self, pid: u32, name: &str) -> Option<Option<String>> {
        let variables = self.text(pid, "environ").filter(|text| !text.is_empty())?;
        let value = |one: &str| Some(one.strip_prefix(name)?.strip_prefix('=')?.to_owned());
        Some(variables.split('\0').find_map(value))
    }

    /// The pipes of its standard output and error, by their names in `/proc`.
    pub fn output_pipes(&self, pid: u32) -> Vec<String> {
        let targets = ["1", "2"].map(|fd| fs::read_link(self.path(pid, "fd").join(fd)).ok());
        let name = |target: PathBuf| target.to_str().map(str::to_owned);
        let names = targets.into_iter().flatten().filter_map(name);
        names.filter(|name| name.starts_with("pipe:[")).collect()
    }

    /// The current directory of a process. None if it has ended or access is denied.
    pub fn current_directory(&self, pid: u32) -> Option<PathBuf> {
        fs::read_link(self.path(pid, "cwd")).ok()
    }

    /// Whether a process with the same mounts as dockbridge has its current directory in this one, whose path
    /// has no links. Also true if the table cannot be read: no process has certainly ended then.
    pub fn has_in(&self, directory: &Path) -> bool {
        let Ok(pids) = self.pids() else { return true };
        // A process that has ended has none, even if its parent has not waited for it.
        let is_there =
            |pid| self.current_directory(pid).is_some_and(|it| it.starts_with(directory));
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

/// The pids among the names of entries. A directory has no more entries after its first error, so the pids
/// before it are not all there are.
pub(super) fn pids_of(
    mut names: impl Iterator<Item = io::Result<OsString>>,
) -> io::Result<Vec<u32>> {
    names.try_fold(Vec::new(), |mut pids, name| {
        pids.extend(name?.to_str().and_then(|name| name.parse::<u32>().ok()));
        Ok(pids)
    })
}

/// The values of a flag in a command line, written `--name=value` or `--name value`.
pub fn flag_values<'a>(words: &'a [String], name: &str) -> Vec<&'a str> {
    let next = words.iter().skip(1).map(Some).chain([None]);
    let values =
        words.iter().zip(next).filter_map(|(word, next)| match word.strip_prefix(name)? {
            "" => next.map(String::as_str),
            rest => rest.strip_prefix('='),
        });
    values.collect()
}

/// Parses `stat`: pid, name in parentheses (which may itself contain parentheses), then fields.
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

/// Fields between the session and the start time.
const FIELDS_TO_START: usize = 15;

/// Size limit for an environment. A larger one is truncated.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

#[cfg(test)]
mod tests;

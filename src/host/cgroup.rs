//! Finds the cgroup directories of a process, with any layout of the cgroup hierarchies.
//!
//! A host has one hierarchy for all controllers (v2), several hierarchies with different controllers (v1), or
//! both. Inside a container, the mount of a hierarchy can show only a part of it. `/proc/<pid>/cgroup` has the path
//! of the process's cgroup in each hierarchy. A pid may be reused, so callers also give the container's id, which
//! the path must contain.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use self::open_files::{OpenFileLimit, OpenFiles};
use super::{
    error::{HostError, OrCannot as _},
    mounts::MountInfo,
};

pub mod hugetlb;
pub mod kills;
pub mod limits;
pub mod members;
pub mod open_files;
pub mod weight;
pub mod working_set;

/// Finds cgroups of this host. Clones share the mount table and the cache of found cgroups.
#[derive(Clone, Debug)]
pub struct Cgroups {
    pub proc: PathBuf,
    mounts: Arc<Mutex<Option<Table>>>,
    found: Arc<Mutex<HashMap<String, CachedGroup>>>,
    limit: OpenFileLimit,
}

#[derive(Debug)]
struct CachedGroup {
    pid: u32,
    group: Arc<Cgroup>,
}

/// The directories of one cgroup in the hierarchies.
#[derive(Clone, Debug)]
pub struct Cgroup {
    proc: PathBuf,
    v2: Option<PathBuf>,
    /// The cgroup's directories in v1 hierarchies that dockbridge sees, by controller, also by `name=systemd`.
    v1: BTreeMap<String, PathBuf>,
    open_files: OpenFiles,
}

/// The version of a controller's hierarchy, which determines the names and formats of the cgroup files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    V1,
    V2,
}

/// The mounts of cgroup hierarchies, when dockbridge read the mount table, and how long that took.
#[derive(Clone, Debug)]
struct Table {
    mounts: Arc<[Mount]>,
    read: Instant,
    took: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// The mount options of a v1 hierarchy, which include its controllers; None for v2.
    options: Option<Vec<String>>,
    /// Which directory of the hierarchy is mounted.
    root: PathBuf,
    point: PathBuf,
}

impl Cgroups {
    /// Finds cgroups through the given `/proc`. Keeps no files open.
    pub fn from_proc(proc: &Path) -> Self {
        Self::with(proc, OpenFileLimit::of(0))
    }

    fn with(proc: &Path, limit: OpenFileLimit) -> Self {
        let (mounts, found) = (Arc::default(), Arc::default());
        Self { proc: proc.to_owned(), mounts, found, limit }
    }

    /// The cgroup whose path contains `owner` and in which, or below which, process `pid` runs. Leaves out
    /// hierarchies in which dockbridge does not see this cgroup. May block while the kernel creates or removes cgroups.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the process has ended, or is in no cgroup of `owner` that dockbridge can
    /// see.
    pub fn find(&self, pid: u32, owner: &str) -> io::Result<Arc<Cgroup>> {
        let group = self.find_uncached(pid, owner)?;
        // If the cache has the same cgroup, returns the cached value, because its files are already open.
        let is_same = |it: &Arc<Cgroup>| it.v2 == group.v2 && it.v1 == group.v1;
        let cached = self.cached(pid, owner).filter(is_same);
        Ok(cached.unwrap_or_else(|| {
            let group = Arc::new(group);
            self.found
                .lock()
                .insert(owner.to_owned(), CachedGroup { pid, group: Arc::clone(&group) });
            group
        }))
    }

    /// [`Self::find`] without caching the result.
    pub fn find_uncached(&self, pid: u32, owner: &str) -> io::Result<Cgroup> {
        let memberships = self.memberships(pid)?;
        let mut found = None;
        // Reads the mount table only if the process is in a cgroup of `owner`.
        if memberships.lines().any(|line| membership(line, owner).is_some()) {
            found = self.locate(&memberships, owner, &self.mount_table()?.mounts);
            if found.is_none() && !self.mount_table()?.is_fresh() {
                found = self.locate(&memberships, owner, &self.read_mounts()?.mounts);
            }
        }
        found.ok_or_else(|| {
            let reason =
                format!("process {pid} is in no cgroup of {owner} that dockbridge can see");
            io::Error::new(io::ErrorKind::NotFound, reason)
        })
    }

    /// The cached cgroup of `owner`, if it was found with this `pid`. Reads no files, so the cgroup may have
    /// been removed or may be empty. If the cgroup [`Cgroup::exists`], it belongs to `owner`, even if the pid
    /// was reused, because its path contains `owner`.
    pub fn cached(&self, pid: u32, owner: &str) -> Option<Arc<Cgroup>> {
        let found = self.found.lock();
        found.get(owner).filter(|found| found.pid == pid).map(|found| Arc::clone(&found.group))
    }

    /// Whether the process is now in a cgroup whose path contains `owner`.
    pub fn contains(&self, pid: u32, owner: &str) -> bool {
        let is_owned = |all: String| all.lines().any(|line| membership(line, owner).is_some());
        self.memberships(pid).is_ok_and(is_owned)
    }

    fn memberships(&self, pid: u32) -> io::Result<String> {
        fs::read_to_string(self.proc.join(pid.to_string()).join("cgroup"))
    }

    /// Drops the cached cgroups of all owners for which `is_owner` is false.
    pub fn retain(&self, is_owner: impl Fn(&str) -> bool) {
        self.found.lock().retain(|owner, _| is_owner(owner));
    }

    /// Whether a hierarchy of this version has the controller; None if dockbridge cannot find out. For v2,
    /// also None if no v2 hierarchy is mounted.
    pub fn has_controller(&self, hierarchy: Hierarchy, controller: &str) -> Option<bool> {
        let mounts = self.mount_table().ok()?.mounts;
        if mounts.is_empty() {
            return None;
        }
        match hierarchy {
            Hierarchy::V1 => Some(mounts.iter().any(|mount| mount.serves(controller))),
            Hierarchy::V2 => {
                let v2 = mounts.iter().find(|mount| mount.options.is_none())?;
                let listed = fs::read_to_string(v2.point.join("cgroup.controllers")).ok()?;
                Some(listed.split_whitespace().any(|it| it == controller))
            }
        }
    }

    fn locate(&self, memberships: &str, owner: &str, mounts: &[Mount]) -> Option<Cgroup> {
        let proc = self.proc.clone();
        let open_files = OpenFiles::of(&self.limit);
        let mut found = Cgroup { proc, v2: None, v1: BTreeMap::new(), open_files };
        for (controllers, path) in memberships.lines().filter_map(|line| membership(line, owner)) {
            let has_it = |mount: &&Mount| match controllers {
                "" => mount.options.is_none(),
                list => list.split(',').any(|controller| mount.serves(controller)),
            };
            let place = mounts.iter().filter(has_it).find_map(|mount| mount.visible_path(&path));
            match (place, controllers) {
                (None, _) => {}
                (place, "") => found.v2 = place,
                (Some(place), list) => {
                    let each = list.split(',').map(|one| (one.to_owned(), place.clone()));
                    found.v1.extend(each);
                }
            }
        }
        (found.v2.is_some() || !found.v1.is_empty()).then_some(found)
    }

    /// The mount table from the last successful read, or from a read now if none has succeeded yet.
    fn mount_table(&self) -> io::Result<Table> {
        let last = self.mounts.lock().clone();
        last.map_or_else(|| self.read_mounts(), Ok)
    }

    fn read_mounts(&self) -> io::Result<Table> {
        let begun = Instant::now();
        let text = fs::read_to_string(self.proc.join("self/mountinfo"))?;
        let mounts = text.lines().filter_map(Mount::read).collect();
        let read = Instant::now();
        let table = Table { mounts, read, took: read.duration_since(begun) };
        *self.mounts.lock() = Some(table.clone());
        Ok(table)
    }
}

impl Default for Cgroups {
    fn default() -> Self {
        Self::with(Path::new("/proc"), OpenFileLimit::usual())
    }
}

impl Cgroup {
    /// The cgroup's directory in the controller's v1 hierarchy, or otherwise in the v2 hierarchy, with the version.
    pub fn directory(&self, controller: &str) -> Option<(Hierarchy, &Path)> {
        let v1 = self.v1.get(controller).map(|place| (Hierarchy::V1, place.as_path()));
        v1.or_else(|| self.v2().map(|place| (Hierarchy::V2, place)))
    }

    /// The cgroup's directory in the v2 hierarchy.
    pub fn v2(&self) -> Option<&Path> {
        self.v2.as_deref()
    }

    /// The files of the cgroup that stay open.
    pub const fn open_files(&self) -> &OpenFiles {
        &self.open_files
    }

    /// The parent cgroup. The parent shares the open files of this cgroup.
    #[must_use]
    pub fn parent(&self) -> Self {
        let above = |place: &PathBuf| place.parent().map(Path::to_owned);
        let v1 = self.v1.iter();
        Self {
            v2: self.v2.as_ref().and_then(above),
            v1: v1.filter_map(|(name, place)| Some((name.clone(), above(place)?))).collect(),
            ..self.clone()
        }
    }

    /// One of the cgroup's directories, whose file `cgroup.procs` leaves out processes in cgroups below.
    pub fn any(&self) -> Option<&Path> {
        self.v1.values().chain(&self.v2).next().map(PathBuf::as_path)
    }

    /// Whether the cgroup still exists. Checks only one of the cgroup's directories.
    pub fn exists(&self) -> bool {
        self.any().is_some_and(Path::is_dir)
    }

    /// The name of the cgroup's systemd scope. None if no directory of the cgroup has a name that ends in `.scope`.
    pub fn scope(&self) -> Option<&str> {
        let mut places = self.v2.iter().chain(self.v1.values());
        places.find_map(|place| place.file_name()?.to_str().filter(|name| name.ends_with(".scope")))
    }
}

impl Table {
    /// Whether the table was read too recently to read it again: a host may have tens of thousands of mounts.
    fn is_fresh(&self) -> bool {
        self.read.elapsed() < self.took.saturating_mul(REREAD_FACTOR)
    }
}

impl Mount {
    /// Parses a line of the mount table; None for a file system that is not a cgroup hierarchy.
    pub(super) fn read(line: &str) -> Option<Self> {
        // Rejects lines of other file systems, which are most lines of a long table, without parsing them.
        let (_, source) = line.split_once(" - ")?;
        if !source.starts_with("cgroup") {
            return None;
        }
        let entry = MountInfo::read(line)?;
        let options = match entry.kind {
            "cgroup2" => None,
            "cgroup" => Some(entry.options.split(',').map(str::to_owned).collect()),
            _ => return None,
        };
        Some(Self { options, root: entry.root, point: entry.point })
    }

    fn serves(&self, controller: &str) -> bool {
        self.options.iter().flatten().any(|option| option == controller)
    }

    fn visible_path(&self, path: &Path) -> Option<PathBuf> {
        let place = self.point.join(path.strip_prefix(&self.root).ok()?);
        place.is_dir().then_some(place)
    }
}

/// The text of a cgroup file, without white space at its end.
///
/// # Errors
/// The file does not exist, or cannot be read.
pub fn read(directory: &Path, file: &str) -> io::Result<String> {
    let opened = File::open(directory.join(file_name(file)?))?;
    let mut text = String::with_capacity(INITIAL_BUFFER);
    // With `take`, `read_to_string` does not ask for the file's size, which the kernel does not know.
    opened.take(u64::MAX).read_to_string(&mut text)?;
    text.truncate(text.trim_end().len());
    Ok(text)
}

/// Writes a cgroup file. May wait for the kernel to reclaim memory.
///
/// # Errors
/// `file` is not the name of an existing file, or cannot be opened, or the kernel refuses the value.
pub fn write(directory: &Path, file: &str, value: &str) -> Result<(), HostError> {
    let path = directory.join(file);
    // Writes everything at once, because the kernel treats each write as a whole value. Creates no file.
    let written = file_name(file)
        .and_then(|_| OpenOptions::new().write(true).open(&path))
        .and_then(|mut opened| opened.write_all(format!("{value}\n").as_bytes()));
    written.or_cannot("write", &path)
}

fn file_name(file: &str) -> io::Result<&str> {
    let mut parts = Path::new(file).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Ok(file),
        _ => Err(io::ErrorKind::InvalidFilename.into()),
    }
}

/// The controllers (empty for v2) and the path of a line of `/proc/<pid>/cgroup`, shortened to the directory
/// whose name contains `owner`; None if the path has no such directory.
pub(super) fn membership<'a>(line: &'a str, owner: &str) -> Option<(&'a str, PathBuf)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let path = Path::new(path);
    let owned = |path: &&Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| !owner.is_empty() && name.contains(owner))
    };
    // Takes the outermost directory, because a container may create cgroups that repeat the owner's name.
    let group = path.ancestors().filter(owned).last()?;
    Some((controllers, group.to_owned()))
}

/// After a read, the mount table counts as fresh for this many times the duration of the read.
const REREAD_FACTOR: u32 = 20;

/// The initial size of the buffer for a cgroup file, in bytes. Most cgroup files are smaller.
const INITIAL_BUFFER: usize = 128;

#[cfg(test)]
mod tests;

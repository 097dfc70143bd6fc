//! Finds the cgroup directories of a process, on any layout of the hierarchies.
//!
//! There may be one hierarchy for all controllers (v2), one for each (v1), or both; directories of
//! the engine or scopes of systemd; the whole tree or, inside a container, a part of it.
//! `/proc/<pid>/cgroup` has the path of a process in each hierarchy, and the mount table the mount
//! point of the hierarchy. A pid may be reused, so callers give a name that the path must contain:
//! the container's id.

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

/// The cgroups of this machine. Clones share the mount table and the cgroups that were found.
#[derive(Clone, Debug)]
pub struct Cgroups {
    pub proc: PathBuf,
    mounts: Arc<Mutex<Option<Table>>>,
    found: Arc<Mutex<HashMap<String, CachedGroup>>>,
    limit: OpenFileLimit,
}

/// A cgroup that was found, and its process.
#[derive(Debug)]
struct CachedGroup {
    pid: u32,
    group: Arc<Cgroup>,
}

/// The directories of a process's cgroup.
#[derive(Clone, Debug)]
pub struct Cgroup {
    proc: PathBuf,
    v2: Option<PathBuf>,
    /// By controller, `name=systemd` among them.
    v1: BTreeMap<String, PathBuf>,
    open_files: OpenFiles,
}

/// The version of a controller's hierarchy; names and formats of files depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    V1,
    V2,
}

/// The cgroup mounts, and how long it took to read the mount table.
#[derive(Clone, Debug)]
struct Table {
    mounts: Arc<[Mount]>,
    read: Instant,
    took: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Options of a v1 hierarchy, its controllers among them; none for v2.
    options: Option<Vec<String>>,
    /// The directory of the hierarchy that is mounted.
    root: PathBuf,
    point: PathBuf,
}

impl Cgroups {
    /// Cgroups by another `/proc`, for tests. No file stays open: only the kernel's own files fail
    /// once they are removed.
    pub fn from_proc(proc: &Path) -> Self {
        Self::with(proc, OpenFileLimit::of(0))
    }

    fn with(proc: &Path, limit: OpenFileLimit) -> Self {
        let (mounts, found) = (Arc::default(), Arc::default());
        Self { proc: proc.to_owned(), mounts, found, limit }
    }

    /// The cgroup of process `pid` whose path contains `owner`, without the levels that its
    /// processes made below it; hierarchies without such a cgroup are left out. Reads `/proc`,
    /// which waits while cgroups are created or removed.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when the process has ended, or is in no such group.
    pub fn find(&self, pid: u32, owner: &str) -> io::Result<Arc<Cgroup>> {
        let group = self.find_uncached(pid, owner)?;
        // The cached one is kept, with its open files.
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
        // Otherwise the mount table does not help.
        if memberships.lines().any(|line| membership(line, owner).is_some()) {
            found = self.locate(&memberships, owner, &self.mount_table()?.mounts);
            // Hierarchies may have been mounted since.
            if found.is_none() && !self.mount_table()?.is_fresh() {
                found = self.locate(&memberships, owner, &self.read_mounts()?.mounts);
            }
        }
        found.ok_or_else(|| {
            let reason = format!("process {pid} is not in any cgroup of {owner}");
            io::Error::new(io::ErrorKind::NotFound, reason)
        })
    }

    /// The cached cgroup of this process and owner. Reads nothing, so the cgroup may have been removed
    /// or may be empty. Its path contains the owner's name, so as long as it [`Cgroup::exists`] it
    /// belongs to the owner, even if the pid was reused.
    pub fn cached(&self, pid: u32, owner: &str) -> Option<Arc<Cgroup>> {
        let found = self.found.lock();
        found.get(owner).filter(|found| found.pid == pid).map(|found| Arc::clone(&found.group))
    }

    /// Whether the process is in a cgroup whose path contains `owner` at this moment.
    pub fn contains(&self, pid: u32, owner: &str) -> bool {
        let is_owned = |all: String| all.lines().any(|line| membership(line, owner).is_some());
        self.memberships(pid).is_ok_and(is_owned)
    }

    fn memberships(&self, pid: u32) -> io::Result<String> {
        fs::read_to_string(self.proc.join(pid.to_string()).join("cgroup"))
    }

    /// Drops the cached cgroups of all other owners.
    pub fn retain(&self, is_owner: impl Fn(&str) -> bool) {
        self.found.lock().retain(|owner, _| is_owner(owner));
    }

    /// Whether a hierarchy of this version has the controller; none if that is not visible.
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

    /// The mount table as read last; reads it the first time.
    fn mount_table(&self) -> io::Result<Table> {
        let last = self.mounts.lock().clone();
        match last {
            Some(table) => Ok(table),
            None => self.read_mounts(),
        }
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
    /// The directory of a controller's files, and their version.
    pub fn directory(&self, controller: &str) -> Option<(Hierarchy, &Path)> {
        let v1 = self.v1.get(controller).map(|place| (Hierarchy::V1, place.as_path()));
        v1.or_else(|| self.v2().map(|place| (Hierarchy::V2, place)))
    }

    /// The directory in the v2 hierarchy.
    pub fn v2(&self) -> Option<&Path> {
        self.v2.as_deref()
    }

    /// Its files that stay open.
    pub const fn open_files(&self) -> &OpenFiles {
        &self.open_files
    }

    /// The cgroup above it. It shares its open files.
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

    /// One of its directories. Each lists its processes, except those that were moved to a group below.
    pub fn any(&self) -> Option<&Path> {
        self.v1.values().chain(&self.v2).next().map(PathBuf::as_path)
    }

    /// Whether the cgroup still exists. Only one of its directories is checked.
    pub fn exists(&self) -> bool {
        self.any().is_some_and(Path::is_dir)
    }

    /// The name of its systemd scope, if systemd made it.
    pub fn scope(&self) -> Option<&str> {
        let mut places = self.v2.iter().chain(self.v1.values());
        places.find_map(|place| place.file_name()?.to_str().filter(|name| name.ends_with(".scope")))
    }
}

impl Table {
    /// Whether the last read is too recent for its cost: a machine may have tens of thousands of mounts, and
    /// many processes whose cgroup is not visible.
    fn is_fresh(&self) -> bool {
        self.read.elapsed() < self.took.saturating_mul(REREAD_FACTOR)
    }
}

impl Mount {
    /// Parses a line of the mount table; none for other file systems.
    pub(super) fn read(line: &str) -> Option<Self> {
        // Most lines of a long table are something else; this is found without parsing the line.
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

    /// The visible path of a directory of the hierarchy, if there is one.
    fn visible_path(&self, path: &Path) -> Option<PathBuf> {
        let place = self.point.join(path.strip_prefix(&self.root).ok()?);
        place.is_dir().then_some(place)
    }
}

/// The text of a cgroup file, trimmed.
///
/// # Errors
/// There is no such file, or it cannot be read.
pub fn read(directory: &Path, file: &str) -> io::Result<String> {
    let opened = File::open(directory.join(file_name(file)?))?;
    let mut text = String::with_capacity(USUAL);
    // Such files report no size.
    opened.take(u64::MAX).read_to_string(&mut text)?;
    text.truncate(text.trim_end().len());
    Ok(text)
}

/// Writes a cgroup file. May wait for the kernel to reclaim memory.
///
/// # Errors
/// There is no such file, or the kernel refuses the value.
pub fn write(directory: &Path, file: &str, value: &str) -> Result<(), HostError> {
    let path = directory.join(file);
    // One write: the kernel takes each as a value. The file is never created.
    let written = file_name(file)
        .and_then(|_| OpenOptions::new().write(true).open(&path))
        .and_then(|mut opened| opened.write_all(format!("{value}\n").as_bytes()));
    written.or_cannot("write", &path)
}

/// Checks that a name has no path separator.
fn file_name(file: &str) -> io::Result<&str> {
    let mut parts = Path::new(file).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Ok(file),
        _ => Err(io::ErrorKind::InvalidFilename.into()),
    }
}

/// The controllers (empty for v2) and the path of a line of `/proc/<pid>/cgroup`, up to the directory
/// that is `owner`'s; none if there is no such directory.
pub(super) fn membership<'a>(line: &'a str, owner: &str) -> Option<(&'a str, PathBuf)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let path = Path::new(path);
    let owned = |path: &&Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| !owner.is_empty() && name.contains(owner))
    };
    // The outermost: what a container makes within itself may repeat its name.
    let group = path.ancestors().filter(owned).last()?;
    Some((controllers, group.to_owned()))
}

/// The mount table is reread after this many times the duration of the last read.
const REREAD_FACTOR: u32 = 20;

/// Larger than most files.
const USUAL: usize = 128;

#[cfg(test)]
mod tests;

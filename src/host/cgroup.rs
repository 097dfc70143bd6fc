//! The control groups of a process: which directories they are, on any layout of the hierarchies.
//!
//! One hierarchy for all controllers (v2), one for each (v1), or both beside each other; the
//! engine's own directories or systemd's scopes; a whole tree or, inside a container, a part of
//! it. `/proc/<pid>/cgroup` says where a process is in each hierarchy and the mount table where
//! that hierarchy can be seen. A pid may be another process's by now, so whoever asks says a name
//! that the path must hold, which for containers is their id.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use self::kept::{Allowance, Kept};
use super::{error::HostError, mounts::Entry};

pub mod hugetlb;
pub mod kept;
pub mod kills;
pub mod limits;
pub mod members;
pub mod weight;

/// The control groups of this machine. Clones share what is known of the mounts, and the groups
/// that were found.
#[derive(Clone, Debug)]
pub struct Cgroups {
    proc: PathBuf,
    mounts: Arc<Mutex<Option<Table>>>,
    found: Arc<Mutex<HashMap<String, Found>>>,
    allowance: Allowance,
}

/// A group that was found, and the process that was asked about.
#[derive(Debug)]
struct Found {
    pid: u32,
    group: Arc<Cgroup>,
}

/// The directories of one control group that a process is in.
#[derive(Clone, Debug)]
pub struct Cgroup {
    proc: PathBuf,
    v2: Option<PathBuf>,
    /// By controller, `name=systemd` among them.
    v1: BTreeMap<String, PathBuf>,
    kept: Kept,
}

/// Which sort of hierarchy a controller is in; its files have other names and texts in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// Version 1.
    V1,
    /// Version 2.
    V2,
}

/// What the table of mounts told of control groups, and what it cost to read.
#[derive(Clone, Debug)]
struct Table {
    mounts: Arc<[Mount]>,
    read: Instant,
    took: Duration,
}

/// Where a hierarchy can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Options of a v1 hierarchy, its controllers among them; none for v2.
    options: Option<Vec<String>>,
    /// Which directory of the hierarchy is seen.
    root: PathBuf,
    /// And where.
    point: PathBuf,
}

impl Cgroups {
    /// Those below another `/proc`. No file stays open: only of its own files the kernel says
    /// that they have gone.
    pub fn told_by(proc: &Path) -> Self {
        Self::with(proc, Allowance::of(0))
    }

    fn with(proc: &Path, allowance: Allowance) -> Self {
        let (mounts, found) = (Arc::default(), Arc::default());
        Self { proc: proc.to_owned(), mounts, found, allowance }
    }

    /// The `/proc` that tells of them.
    pub fn proc(&self) -> &Path {
        &self.proc
    }

    /// The group of process `pid` whose name holds `owner`; groups that its processes made below
    /// it are passed over, and hierarchies in which it is in no such group are left out. Reads
    /// what the kernel says, and waits for whoever makes or removes groups.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when the process has gone, or is in no such group.
    pub fn of(&self, pid: u32, owner: &str) -> io::Result<Arc<Cgroup>> {
        let group = self.seen(pid, owner)?;
        // What is known stays, and with it the files that are open.
        let known = self.remembered(pid, owner).filter(|known| known.is_where(&group));
        Ok(known.unwrap_or_else(|| {
            let group = Arc::new(group);
            self.found().insert(owner.to_owned(), Found { pid, group: Arc::clone(&group) });
            group
        }))
    }

    /// The same, for one look: it is not remembered.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn seen(&self, pid: u32, owner: &str) -> io::Result<Cgroup> {
        let told = fs::read_to_string(self.proc.join(pid.to_string()).join("cgroup"))?;
        let mut found = None;
        // Of a process that is in no such group no table of mounts tells more.
        if told.lines().any(|line| membership(line, owner).is_some()) {
            found = self.locate(&told, owner, &self.known()?.mounts);
            // Hierarchies may have been mounted since.
            if found.is_none()
                && let Some(mounts) = self.look_again()?
            {
                found = self.locate(&told, owner, &mounts);
            }
        }
        found.ok_or_else(|| {
            let reason = format!("process {pid} is in no control group of {owner}");
            io::Error::new(io::ErrorKind::NotFound, reason)
        })
    }

    /// The group that was found for this process and this owner before; asks nobody, so it may
    /// have gone since, or be empty. Its path holds the owner's name: as long as it
    /// [`Cgroup::exists`] it is the owner's, whoever has the pid by now.
    pub fn remembered(&self, pid: u32, owner: &str) -> Option<Arc<Cgroup>> {
        let found = self.found();
        found.get(owner).filter(|found| found.pid == pid).map(|found| Arc::clone(&found.group))
    }

    /// Whether the process is, at this moment, in a group whose name holds `owner`.
    pub fn has(&self, pid: u32, owner: &str) -> bool {
        let told = fs::read_to_string(self.proc.join(pid.to_string()).join("cgroup"));
        told.is_ok_and(|told| told.lines().any(|line| membership(line, owner).is_some()))
    }

    /// Forgets the groups of all other owners.
    pub fn retain(&self, is_owner: impl Fn(&str) -> bool) {
        self.found().retain(|owner, _| is_owner(owner));
    }

    fn found(&self) -> MutexGuard<'_, HashMap<String, Found>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The topmost group that can be seen of each hierarchy; none where there are none.
    pub fn top(&self) -> Option<Cgroup> {
        let mounts = self.known().ok()?.mounts;
        let (proc, mut v1) = (self.proc.clone(), BTreeMap::new());
        for mount in mounts.iter() {
            for option in mount.options.iter().flatten() {
                v1.entry(option.clone()).or_insert_with(|| mount.point.clone());
            }
        }
        let v2 = mounts.iter().find(|mount| mount.options.is_none());
        let v2 = v2.map(|mount| mount.point.clone());
        (v2.is_some() || !v1.is_empty()).then_some(Cgroup { proc, v2, v1, kept: Kept::nothing() })
    }

    /// Whether a hierarchy of this version has the controller; none when that cannot be seen.
    pub fn has_controller(&self, hierarchy: Hierarchy, controller: &str) -> Option<bool> {
        let mounts = self.known().ok()?.mounts;
        if mounts.is_empty() {
            return None;
        }
        match hierarchy {
            Hierarchy::V1 => Some(mounts.iter().any(|mount| mount.serves(controller))),
            Hierarchy::V2 => {
                let v2 = mounts.iter().find(|mount| mount.options.is_none())?;
                let listed = fs::read_to_string(v2.point.join("cgroup.controllers")).ok()?;
                Some(listed.split_whitespace().any(|known| known == controller))
            }
        }
    }

    fn locate(&self, told: &str, owner: &str, mounts: &[Mount]) -> Option<Cgroup> {
        let proc = self.proc.clone();
        let kept = Kept::of(&self.allowance);
        let mut found = Cgroup { proc, v2: None, v1: BTreeMap::new(), kept };
        for (controllers, path) in told.lines().filter_map(|line| membership(line, owner)) {
            let seen = |mount: &&Mount| match controllers {
                "" => mount.options.is_none(),
                list => list.split(',').any(|controller| mount.serves(controller)),
            };
            let place = mounts.iter().filter(seen).find_map(|mount| mount.place_of(&path));
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

    /// The table as it was read last; read now if it never was.
    fn known(&self) -> io::Result<Table> {
        let known = self.mounts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known {
            Some(table) => Ok(table),
            None => self.look(),
        }
    }

    /// The mounts of now; none while reading them would cost more than a small part of the time: a
    /// machine may have tens of thousands, and many processes whose group cannot be seen.
    fn look_again(&self) -> io::Result<Option<Arc<[Mount]>>> {
        if self.known()?.is_fresh() { Ok(None) } else { Ok(Some(self.look()?.mounts)) }
    }

    fn look(&self) -> io::Result<Table> {
        let begun = Instant::now();
        let text = fs::read_to_string(self.proc.join("self/mountinfo"))?;
        let mounts = text.lines().filter_map(Mount::read).collect();
        let read = Instant::now();
        let table = Table { mounts, read, took: read.duration_since(begun) };
        *self.mounts.lock().unwrap_or_else(PoisonError::into_inner) = Some(table.clone());
        Ok(table)
    }
}

impl Default for Cgroups {
    fn default() -> Self {
        Self::with(Path::new("/proc"), Allowance::usual())
    }
}

impl Cgroup {
    /// Where a controller's files are, and of which sort they are.
    pub fn directory(&self, controller: &str) -> Option<(Hierarchy, &Path)> {
        let v1 = self.v1.get(controller).map(|place| (Hierarchy::V1, place.as_path()));
        v1.or_else(|| self.v2().map(|place| (Hierarchy::V2, place)))
    }

    /// The directory in the hierarchy of version 2.
    pub fn v2(&self) -> Option<&Path> {
        self.v2.as_deref()
    }

    /// Those of its files that stay open.
    pub const fn kept(&self) -> &Kept {
        &self.kept
    }

    fn is_where(&self, other: &Self) -> bool {
        self.v2 == other.v2 && self.v1 == other.v1
    }

    /// Whether it is still there, by the first of its directories.
    pub fn exists(&self) -> bool {
        self.v2.iter().chain(self.v1.values()).next().is_some_and(|place| place.is_dir())
    }

    /// The systemd scope that the group is, where systemd made it.
    pub fn scope(&self) -> Option<&str> {
        let mut places = self.v2.iter().chain(self.v1.values());
        places.find_map(|place| place.file_name()?.to_str().filter(|name| name.ends_with(".scope")))
    }
}

impl Table {
    fn is_fresh(&self) -> bool {
        self.read.elapsed() < self.took.saturating_mul(REST)
    }
}

impl Mount {
    /// A line of the mount table; none for what shows no control groups.
    pub(super) fn read(line: &str) -> Option<Self> {
        // Most of a long table is something else; that is seen without taking the line apart.
        let (_, source) = line.split_once(" - ")?;
        if !source.starts_with("cgroup") {
            return None;
        }
        let entry = Entry::read(line)?;
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

    /// Where a directory of the hierarchy is, if it can be seen here.
    fn place_of(&self, path: &Path) -> Option<PathBuf> {
        let place = self.point.join(path.strip_prefix(&self.root).ok()?);
        place.is_dir().then_some(place)
    }
}

/// The text of a file of a control group, without the blanks around it.
///
/// # Errors
/// There is no such file, or it cannot be read.
pub fn read(directory: &Path, file: &str) -> io::Result<String> {
    let opened = File::open(directory.join(plain(file)?))?;
    let mut text = String::with_capacity(USUAL);
    // Such files have no size: asking for it is in vain.
    opened.take(u64::MAX).read_to_string(&mut text)?;
    text.truncate(text.trim_end().len());
    Ok(text)
}

/// Sets a file of a control group. May wait for the kernel to reclaim memory.
///
/// # Errors
/// There is no such file, or the kernel refuses the value.
pub fn write(directory: &Path, file: &str, value: &str) -> Result<(), HostError> {
    let path = directory.join(file);
    // One call: the kernel reads each as a value of its own. Never made: a group's files are.
    let written = plain(file)
        .and_then(|_| OpenOptions::new().write(true).open(&path))
        .and_then(|mut opened| opened.write_all(format!("{value}\n").as_bytes()));
    written.map_err(|source| HostError::new("write", &path, source))
}

/// A name that leads nowhere else.
fn plain(file: &str) -> io::Result<&str> {
    let mut parts = Path::new(file).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Ok(file),
        _ => Err(io::ErrorKind::InvalidFilename.into()),
    }
}

/// The controllers (none for v2) and the path of a line of `/proc/<pid>/cgroup`, up to the
/// directory that is `owner`'s; none if there is none.
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

/// How many times as long as it took to read the table of mounts it counts as true.
const REST: u32 = 20;

/// Larger than most of what is read.
const USUAL: usize = 128;

#[cfg(test)]
mod tests;

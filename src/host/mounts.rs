//! The mount table of a process, and the mount propagation at a path.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    mount::{MntFlags, umount2},
};

use super::{
    capability::listening_pid,
    error::{HostError, OrCannot as _},
    file::if_there,
};

/// A mount, from a line of `/proc/<pid>/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountInfo<'a> {
    /// The device number of the file system, as `major:minor`.
    pub device: &'a str,
    /// Which directory or file of the file system is mounted.
    pub root: PathBuf,
    pub point: PathBuf,
    pub propagation: MountPropagation,
    pub kind: &'a str,
    /// The mount source, as escaped in the file: a device, or any text.
    pub source: &'a str,
    /// The file system's own options, as escaped in the file (see [`unescaped`]), possibly empty.
    pub options: &'a str,
}

/// The mount propagation of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountPropagation {
    /// Whether mounts propagate from and to other mounts of the same group.
    pub shared: bool,
    /// Whether mounts propagate from the mounts of another group to this one (`master`).
    pub follows: bool,
}

/// The propagation at every mount point, read once for all mounts of a container: a host may have thousands of mounts.
#[derive(Debug)]
pub struct MountTable {
    by_point: HashMap<PathBuf, MountPropagation>,
}

impl MountTable {
    /// The mount table of the process that made the engine's socket listen; if unknown or unreadable, dockbridge's own.
    pub fn of_engine(engine_socket: &Path) -> io::Result<Self> {
        let table = listening_pid(engine_socket)
            .and_then(|process| fs::read_to_string(format!("/proc/{process}/mountinfo")).ok())
            .map_or_else(|| fs::read_to_string("/proc/self/mountinfo"), Ok)?;
        Ok(Self::parse(&table))
    }

    /// If several mounts have the same mount point, the last one counts.
    fn parse(table: &str) -> Self {
        let mounts = table.lines().filter_map(MountInfo::read);
        Self { by_point: mounts.map(|mount| (mount.point, mount.propagation)).collect() }
    }

    /// The propagation at `place`; if `place` does not exist, at its nearest existing parent directory.
    pub fn propagation(&self, place: &Path) -> io::Result<MountPropagation> {
        Ok(self.propagation_of(&resolved(place)?))
    }

    fn propagation_of(&self, place: &Path) -> MountPropagation {
        let nearest = place.ancestors().find_map(|above| self.by_point.get(above));
        nearest.copied().unwrap_or_default()
    }
}

fn resolved(place: &Path) -> io::Result<PathBuf> {
    let mut place = place;
    loop {
        match (fs::canonicalize(place), place.parent()) {
            (Err(absent), Some(above)) if absent.kind() == io::ErrorKind::NotFound => place = above,
            (answer, _) => return answer,
        }
    }
}

/// The upper directories of the overlays mounted below the engine's `root_dir`. The key is the last component of the
/// mount point: for the root file system of a container in containerd's image store, the container's id.
///
/// `table` must not be a container's, because a container can mount anything in its own mount namespace.
pub fn upper_directories(table: &str, root_dir: &Path) -> HashMap<String, PathBuf> {
    let mut found = HashMap::new();
    // Skips lines of file systems other than overlay without parsing them, because the table may be long.
    let overlays = table.lines().filter(|line| line.contains(" - overlay "));
    for mount in overlays.filter_map(MountInfo::read) {
        let name = mount.point.file_name().and_then(|name| name.to_str());
        let upper = mount.options.split(',').find_map(|option| option.strip_prefix("upperdir="));
        let upper = upper.map(unescaped).filter(|upper| upper.is_absolute());
        if let (Some(name), Some(upper), true) = (name, upper, mount.point.starts_with(root_dir)) {
            // If several overlays are named after one container, the first is the engine's own mount.
            found.entry(name.to_owned()).or_insert(upper);
        }
    }
    found
}

/// The mount that contains `place`. If several mounts have the same mount point, returns the last of them.
pub fn mount_of<'a>(table: &'a str, place: &Path) -> Option<MountInfo<'a>> {
    let mounts = table.lines().filter_map(MountInfo::read);
    let mount_of = mounts.filter(|mount| place.starts_with(&mount.point));
    mount_of.max_by_key(|mount| mount.point.components().count())
}

/// Unmounts the mounts that are stacked at `at`, at most `MAX_STACKED`. Also succeeds if nothing is mounted there.
pub(super) fn unmount_all(at: &Path) -> Result<(), Errno> {
    for _ in 0..MAX_STACKED {
        match umount2(at, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::EINVAL | Errno::ENOENT | Errno::ENOTDIR) => break,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Removes `at`, an empty directory or a file, if it exists. `at` must not be a mount point.
pub(super) fn remove_mount_point(at: &Path) -> Result<(), HostError> {
    let removed = match fs::symlink_metadata(at) {
        Ok(facts) if facts.is_dir() => fs::remove_dir(at),
        Ok(_) => fs::remove_file(at),
        Err(e) => Err(e),
    };
    if_there(removed).or_cannot("remove", at).map(drop)
}

impl<'a> MountInfo<'a> {
    /// The fields of a line are: id, parent, device, root, mount point, options, any number of tags, `-`,
    /// type, source, options of the file system. None for a malformed line.
    pub fn read(line: &'a str) -> Option<Self> {
        let (place, source) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(2);
        let (device, root, point) = (place.next()?, place.next()?, place.next()?);
        let propagation =
            place.skip(1).fold(MountPropagation::default(), |propagation, tag| MountPropagation {
                shared: propagation.shared || tag.starts_with("shared:"),
                follows: propagation.follows || tag.starts_with("master:"),
            });
        let mut source = source.splitn(3, ' ');
        Some(Self {
            device,
            root: unescaped(root),
            point: unescaped(point),
            propagation,
            kind: source.next()?,
            source: source.next().unwrap_or_default(),
            options: source.next().unwrap_or_default(),
        })
    }
}

/// Decodes the kernel's octal escapes, such as `\040` for a space.
pub fn unescaped(field: &str) -> PathBuf {
    let mut parts = field.split('\\');
    let mut plain = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let escaped = part.split_at_checked(3).and_then(|(code, rest)| {
            let byte = u8::from_str_radix(code, 8).ok()?;
            Some((byte, rest))
        });
        let (byte, rest) = escaped.unwrap_or((b'\\', part));
        plain.push(byte);
        plain.extend_from_slice(rest.as_bytes());
    }
    PathBuf::from(OsString::from_vec(plain))
}

const MAX_STACKED: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whole() {
        let line = "23 21 8:2 /a\\134b /srv/a\\040b rw shared:7 - overlay  rw,upperdir=/c\\054d";
        let entry = MountInfo::read(line).unwrap();
        assert_eq!((entry.device, entry.kind), ("8:2", "overlay"));
        assert_eq!((entry.root.as_path(), entry.point.as_path()), places());
        assert_eq!(entry.propagation, MountPropagation { shared: true, follows: false });
        assert_eq!(entry.options, "rw,upperdir=/c\\054d");
        assert_eq!(MountInfo::read("1 2 0:3 / / rw - proc").unwrap().options, "");
        for rubbish in ["", " - ", "1 2 0:3 / - proc", "1 2 0:3 / / rw"] {
            assert_eq!(MountInfo::read(rubbish), None, "{rubbish}");
        }
    }

    fn places() -> (&'static Path, &'static Path) {
        (Path::new("/a\\b"), Path::new("/srv/a b"))
    }

    #[test]
    fn escapes_are_read_once() {
        for (field, plain) in [
            ("/plain", "/plain"),
            ("/a\\040b\\011\\012", "/a b\t\n"),
            ("/a\\134040", "/a\\040"),
            ("/a\\054b\\303\\244", "/a,bä"),
            ("/a\\", "/a\\"),
            ("/a\\9\\ää", "/a\\9\\ää"),
        ] {
            assert_eq!(unescaped(field), Path::new(plain), "{field}");
        }
    }

    #[test]
    fn the_nearest_mount_counts() {
        let table = "\
            21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            22 21 0:5 / /proc rw - proc proc rw\n\
            23 21 8:2 / /srv/a\\040b rw shared:7 master:2 - ext4 /dev/sdb rw\n\
            24 21 8:3 / /srv rw master:3 propagate_from:1 - ext4 /dev/sdc rw\n\
            25 21 8:3 / /top rw shared:9 - tmpfs tmpfs rw\n\
            26 25 8:3 / /top rw - tmpfs tmpfs rw\n\
            rubbish\n";
        let of = |place: &str| {
            let MountPropagation { shared, follows } =
                MountTable::parse(table).propagation_of(Path::new(place));
            (shared, follows)
        };
        assert_eq!(of("/"), (true, false));
        assert_eq!(of("/procfs"), (true, false));
        assert_eq!(of("/proc/1"), (false, false));
        assert_eq!(of("/srv/a b/c"), (true, true));
        assert_eq!(of("/srv/a"), (false, true));
        assert_eq!(of("/top/x"), (false, false));
        assert_eq!(
            MountTable::parse("").propagation_of(Path::new("/")),
            MountPropagation::default()
        );
    }

    #[test]
    fn propagation_is_read_from_this_machine() {
        let now = MountTable::of_engine(Path::new("/nonexistent.sock")).unwrap();
        now.propagation(Path::new("/proc/self")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("a/b/c");
        assert_eq!(now.propagation(&absent).unwrap(), now.propagation(folder.path()).unwrap());
    }
}

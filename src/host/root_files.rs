//! Changes files below the root directory of a container that does not run. The image and the files of a
//! container checkpoint may have symbolic links that lead out of the root directory, so no function changes a
//! file through a link. [`RootFiles::resolve`] follows links, but stays inside the root.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, FileType, Permissions},
    io::{self, Read},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{PermissionsExt, chown, lchown, symlink},
    },
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, XattrFlags, fstatfs, lsetxattr, openat};

use super::file::if_there;

/// The owner, permissions, modification time and extended attributes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
    /// The modification time in seconds since 1970.
    pub modified: u64,
    pub attributes: Vec<(String, Vec<u8>)>,
}

/// The open root directory of a container.
#[derive(Debug)]
pub struct RootFiles(OwnedFd);

/// A path below the container's root. The parent directory of the path is open.
#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    name: OsString,
}

impl Place {
    fn path(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.directory.as_raw_fd().to_string()).join(&self.name)
    }
}

impl RootFiles {
    /// Opens the root.
    ///
    /// # Errors
    /// `root` is not a directory.
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, root, DIRECTORY, Mode::empty())?))
    }

    /// Removes the file or directory at a path, with everything below it, if it exists.
    ///
    /// # Errors
    /// The path contains `..` or leads through a link, or access is denied.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.place(path).and_then(|place| match fs::symlink_metadata(place.path()) {
            Ok(facts) if facts.is_dir() => fs::remove_dir_all(place.path()),
            Ok(_) => fs::remove_file(place.path()),
            Err(error) => Err(error),
        });
        if_there(removed).map(drop)
    }

    /// Removes everything in a directory.
    ///
    /// # Errors
    /// The errors of [`Self::remove`]; also, the path is not a directory.
    pub fn clear(&self, path: &Path) -> io::Result<()> {
        let place = self.place(path)?;
        for entry in fs::read_dir(place.path())? {
            self.remove(&path.join(entry?.file_name()))?;
        }
        Ok(())
    }

    /// Creates a directory, or changes the properties of an existing directory. Replaces a file or link at the
    /// path. Does not set the modification time.
    ///
    /// # Errors
    /// The errors of [`Self::remove`]; also, the directory cannot be created or changed.
    pub fn directory(&self, path: &Path, properties: &Properties) -> io::Result<()> {
        // The root directory keeps the properties that the engine has set.
        let Some(_) = path.file_name() else { return Ok(()) };
        let place = self.place(path)?;
        if !fs::symlink_metadata(place.path()).is_ok_and(|facts| facts.is_dir()) {
            self.remove(path)?;
            fs::create_dir(place.path())?;
        }
        finish(&place.path(), properties)
    }

    /// Writes a file, and replaces an existing file or directory at its path.
    ///
    /// # Errors
    /// The errors of [`Self::remove`]; also, `content` cannot be read, or the file cannot be written.
    pub fn file(
        &self,
        path: &Path,
        properties: &Properties,
        content: &mut impl Read,
    ) -> io::Result<()> {
        let place = self.new_place(path)?;
        let mut file = File::create_new(place.path())?;
        io::copy(content, &mut file)?;
        finish(&place.path(), properties)?;
        let modified = Duration::from_secs(properties.modified);
        file.set_modified(
            SystemTime::UNIX_EPOCH.checked_add(modified).unwrap_or(SystemTime::UNIX_EPOCH),
        )
    }

    /// Creates a symbolic link, and replaces an existing file or directory at its path. Of `properties`, sets only
    /// the owner.
    ///
    /// # Errors
    /// The errors of [`Self::remove`]; also, the link cannot be created.
    pub fn link(&self, path: &Path, target: &Path, properties: &Properties) -> io::Result<()> {
        let place = self.new_place(path)?;
        symlink(target, place.path())?;
        lchown(place.path(), Some(properties.uid), Some(properties.gid))
    }

    /// Gives the file `first` the additional name `path` (a hard link), and replaces a file or directory there.
    ///
    /// # Errors
    /// The errors of [`Self::remove`]; also, the file `first` does not exist.
    pub fn other_name(&self, path: &Path, first: &Path) -> io::Result<()> {
        let first = self.place(first)?;
        fs::hard_link(first.path(), self.new_place(path)?.path())
    }

    /// The type of the file at a path. None if the path does not exist.
    ///
    /// # Errors
    /// The errors of [`Self::remove`]; also, the path is in a proc file system, whose links can lead out of the root.
    pub fn kind(&self, path: &Path) -> io::Result<Option<FileType>> {
        let found = self.place(path).and_then(|place| {
            if fstatfs(&place.directory)?.f_type == PROC_SUPER_MAGIC {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the path is in a proc file system",
                ));
            }
            Ok(fs::symlink_metadata(place.path())?.file_type())
        });
        if_there(found)
    }

    /// The path to which `path` leads after all links, as if the container's root were the host's. A part
    /// that does not exist counts as a directory.
    ///
    /// # Errors
    /// The path leads through too many links.
    pub fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let names = |path: &Path| -> Vec<OsString> {
            path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
        };
        let (mut left, mut found, mut links) = (names(path), PathBuf::from("/"), 0);
        while let Some(name) = left.pop() {
            if name == ".." {
                found.pop();
                continue;
            }
            // If `name` is the root `/`, `join` replaces the whole path.
            let next = found.join(name);
            match self.place(&next).and_then(|place| fs::read_link(place.path())) {
                Ok(_) if links == MOST_LINKS => return Err(io::ErrorKind::InvalidInput.into()),
                Ok(target) => {
                    links += 1;
                    left.extend(names(&target));
                }
                Err(_) => found = next,
            }
        }
        Ok(found)
    }

    fn new_place(&self, path: &Path) -> io::Result<Place> {
        self.remove(path)?;
        self.place(path)
    }

    fn place(&self, path: &Path) -> io::Result<Place> {
        let mut names = Vec::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => names.push(name),
                Component::CurDir | Component::RootDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidInput,
                        "the path contains .., which can lead out of the root",
                    ));
                }
            }
        }
        let name = names.pop().unwrap_or(OsStr::new("."));
        let mut directory = self.0.try_clone()?;
        for name in names {
            directory = openat(&directory, name, DIRECTORY, Mode::empty())?;
        }
        Ok(Place { directory, name: name.to_owned() })
    }
}

/// Sets the owner first, because changing the owner clears set-user-ID bits and file capabilities.
fn finish(path: &Path, properties: &Properties) -> io::Result<()> {
    chown(path, Some(properties.uid), Some(properties.gid))?;
    fs::set_permissions(path, Permissions::from_mode(properties.mode & 0o7777))?;
    for (name, value) in &properties.attributes {
        lsetxattr(path, name.as_str(), value, XattrFlags::empty())?;
    }
    Ok(())
}

/// How many links are followed at most, as in the kernel.
const MOST_LINKS: u32 = 40;
const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_inside_of_the_root() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir_all(root.join("var/lib")).unwrap();
        for (link, target) in [
            ("var/run", "/run"),
            ("var/lib/up", "../../../run/./x"),
            ("twice", "var/run/y"),
            ("circle", "circle"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let files = RootFiles::open(root).unwrap();
        for (path, wanted) in [
            ("/var/run/secrets/a", "/run/secrets/a"),
            ("var/lib/none/../b", "/var/lib/b"),
            ("/var/lib/up/z", "/run/x/z"),
            ("/twice", "/run/y"),
            ("/", "/"),
            ("/../..", "/"),
        ] {
            assert_eq!(files.resolve(Path::new(path)).unwrap(), Path::new(wanted), "{path}");
        }
        files.resolve(Path::new("/circle/x")).unwrap_err();
    }

    #[test]
    fn nothing_outside_of_the_root_is_changed() {
        let place = tempfile::tempdir().unwrap();
        let (root, outside) = (place.path().join("root"), place.path().join("outside"));
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "kept").unwrap();
        symlink(&outside, root.join("link")).unwrap();
        let files = RootFiles::open(&root).unwrap();
        let facts = fs::metadata(&root).unwrap();
        use std::os::unix::fs::MetadataExt as _;
        let own =
            Properties { uid: facts.uid(), gid: facts.gid(), mode: 0o640, ..Properties::default() };
        for path in ["link/kept", "../outside/kept", "etc/../../outside/kept"] {
            let path = Path::new(path);
            files.file(path, &own, &mut &b"x"[..]).unwrap_err();
            files.directory(path, &own).unwrap_err();
            files.link(path, Path::new("/"), &own).unwrap_err();
            files.remove(path).unwrap_err();
            files.other_name(Path::new("etc/x"), path).unwrap_err();
        }
        for path in ["link/kept", "../outside/kept"] {
            files.kind(Path::new(path)).unwrap_err();
        }
        assert!(files.kind(Path::new("link")).unwrap().unwrap().is_symlink());
        assert!(files.kind(Path::new("etc")).unwrap().unwrap().is_dir());
        assert_eq!(files.kind(Path::new("etc/none/below")).unwrap(), None);
        let node = RootFiles::open(Path::new("/")).unwrap();
        node.kind(Path::new("proc/version")).unwrap_err();
        files.clear(Path::new("link")).unwrap_err();
        files.remove(Path::new("none/below")).unwrap();
        files.file(Path::new("/etc/own"), &own, &mut &b"text"[..]).unwrap();
        files.other_name(Path::new("etc/other"), Path::new("etc/own")).unwrap();
        // A link at the path is replaced, not followed.
        files.directory(Path::new("link"), &own).unwrap();
        files.file(Path::new("link/kept"), &own, &mut &b"new"[..]).unwrap();
        assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
        assert_eq!(fs::read_to_string(root.join("link/kept")).unwrap(), "new");
        assert_eq!(fs::read_to_string(root.join("etc/other")).unwrap(), "text");
        assert_eq!(fs::metadata(root.join("etc/own")).unwrap().permissions().mode() & 0o777, 0o640);
        files.clear(Path::new("etc")).unwrap();
        assert_eq!(fs::read_dir(root.join("etc")).unwrap().count(), 0);
    }
}

//! Sets one extended attribute on everything below a directory.
//!
//! A pod may change the directory at the same time, so no path is used: each directory is opened
//! relative to its parent, and no symbolic link is followed.

use std::{
    ffi::OsStr,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use nix::{
    dir::{Dir, Type},
    errno::Errno,
    fcntl::{OFlag, open, openat},
    sys::stat::Mode,
};

use rustix::{
    fs::{XattrFlags, lsetxattr},
    io::Errno as Refusal,
};

use super::error::{HostError, OrCannot as _};

/// The attribute of SELinux labels.
pub const SELINUX: &str = "security.selinux";

/// Sets attribute `name` to `value` on `root` and everything below it. Returns how many were set. Skips
/// entries that disappear and file systems without such attributes. Stops when `is_over` returns true.
///
/// # Errors
/// More than [`MAX_FILES`] files, deeper than [`MAX_DEPTH`] directories, an error of the kernel, or
/// [`io::ErrorKind::Interrupted`].
pub fn relabel(
    root: &Path,
    (name, value): (&str, &str),
    is_over: &dyn Fn() -> bool,
) -> Result<usize, HostError> {
    let mut walk = Walk { attribute: Attribute { name, value }, seen: 0, is_over };
    walk.from(root).or_cannot("relabel", root)?;
    Ok(walk.seen)
}

struct Attribute<'a> {
    name: &'a str,
    value: &'a str,
}

impl Attribute<'_> {
    /// Sets it on an entry of an open directory. If the entry is a link, on the link itself.
    fn set(&self, directory: &OwnedFd, entry: &OsStr) -> io::Result<()> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(entry);
        match lsetxattr(path, self.name, self.value.as_bytes(), XattrFlags::empty()) {
            Ok(()) | Err(Refusal::NOENT | Refusal::NOTSUP) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

struct Walk<'a> {
    attribute: Attribute<'a>,
    seen: usize,
    is_over: &'a dyn Fn() -> bool,
}

impl Walk<'_> {
    /// The path of the root itself may contain links.
    fn from(&mut self, root: &Path) -> io::Result<()> {
        let root = root.canonicalize()?;
        let above = root.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let name = root.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let above = open(above, DIRECTORY, Mode::empty())?;
        self.entry(&above, name, 0)
    }

    fn entry(&mut self, directory: &OwnedFd, name: &OsStr, depth: usize) -> io::Result<()> {
        self.seen += 1;
        if self.seen > MAX_FILES || depth > MAX_DEPTH {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("there are more than {MAX_FILES} files, or {MAX_DEPTH} nested directories"),
            ));
        }
        self.attribute.set(directory, name)?;
        match openat(directory, name, DIRECTORY, Mode::empty()) {
            Ok(below) => self.entries(&below, depth + 1),
            // The entry is a file or a link, or was removed.
            Err(Errno::ENOTDIR | Errno::ELOOP | Errno::ENOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn entries(&mut self, directory: &OwnedFd, depth: usize) -> io::Result<()> {
        let listed = directory.try_clone()?;
        for entry in Dir::from_fd(listed)?.iter() {
            if (self.is_over)() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = OsStr::from_bytes(name);
            match entry.file_type() {
                Some(Type::Directory) | None => self.entry(directory, name, depth)?,
                Some(_) => {
                    self.seen += 1;
                    self.attribute.set(directory, name)?;
                }
            }
        }
        Ok(())
    }
}

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// Maximum number of files: relabelling more takes longer than a pod's start may take.
pub const MAX_FILES: usize = 1_000_000;
/// Maximum depth of directories. Each of them is open.
pub const MAX_DEPTH: usize = 200;

#[cfg(test)]
mod tests;

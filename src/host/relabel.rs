//! Sets an extended attribute on a file, or on a directory and everything below it.
//!
//! A pod may change the directory at the same time, so this module resolves no paths below it: the module opens
//! each directory relative to its parent, and follows no symbolic link there.

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

/// The name of the extended attribute that contains an SELinux label.
pub const SELINUX: &str = "security.selinux";

/// Sets the attribute `name` to `value` on `root` and everything below it, except entries that disappear or whose file
/// system does not support the attribute. Returns the number of entries, including `root` and these exceptions.
///
/// # Errors
/// The tree has more than [`MAX_FILES`] entries or more than [`MAX_DEPTH`] levels, a call to the kernel
/// fails, or `is_over` returned true ([`io::ErrorKind::Interrupted`]).
pub fn relabel(
    root: &Path,
    (name, value): (&str, &str),
    is_over: &dyn Fn() -> bool,
) -> Result<usize, HostError> {
    let mut walk = Walk { name, value, seen: 0, is_over };
    walk.from(root).or_cannot("relabel", root)?;
    Ok(walk.seen)
}

struct Walk<'a> {
    name: &'a str,
    value: &'a str,
    seen: usize,
    is_over: &'a dyn Fn() -> bool,
}

impl Walk<'_> {
    /// Walks the whole tree. Follows links in the path of `root`, but none below it.
    fn from(&mut self, root: &Path) -> io::Result<()> {
        let root = root.canonicalize()?;
        let above = root.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let name = root.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let above = open(above, DIRECTORY, Mode::empty())?;
        self.entry(&above, name, 0)
    }

    fn entry(&mut self, directory: &OwnedFd, name: &OsStr, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(too_large());
        }
        self.set(directory, name)?;
        match openat(directory, name, DIRECTORY, Mode::empty()) {
            Ok(below) => self.entries(&below, depth + 1),
            // The walk does not enter an entry that is not a directory, or that was removed.
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
                Some(_) => self.set(directory, name)?,
            }
        }
        Ok(())
    }

    /// Sets the attribute on an entry of an open directory; for a symbolic link, on the link itself.
    fn set(&mut self, directory: &OwnedFd, entry: &OsStr) -> io::Result<()> {
        self.seen += 1;
        if self.seen > MAX_FILES {
            return Err(too_large());
        }
        let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(entry);
        match lsetxattr(path, self.name, self.value.as_bytes(), XattrFlags::empty()) {
            Ok(()) | Err(Refusal::NOENT | Refusal::NOTSUP) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn too_large() -> io::Error {
    let text = format!(
        "there are more than {MAX_FILES} files and directories, or directories are nested more than \
         {MAX_DEPTH} levels deep"
    );
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// The maximum number of files and directories, because a container waits while they are relabelled.
pub const MAX_FILES: usize = 1_000_000;
/// The maximum depth of directories. While the walk is in a directory, all directories above it are open.
pub const MAX_DEPTH: usize = 200;

#[cfg(test)]
mod tests;

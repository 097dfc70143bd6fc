//! Opens, creates and lists files below a directory, and creates and removes links there. Follows no symbolic
//! links below the directory.
//!
//! If dockbridge followed links, a pod that can write below the directory, or next to it, could make
//! dockbridge change files elsewhere. The parents of the directory belong to the operator and may be links.
//! The directory itself must not be a link.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata},
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, open as open_directory, openat, readlinkat},
    sys::stat::{Mode, SFlag, fstatat, mkdirat},
    unistd::{UnlinkatFlags, symlinkat, unlinkat},
};

use super::{
    error::{HostError, OrCannot as _},
    file::{self, if_there, not_regular, regular},
};

/// Creates `root`, if missing, and the missing parents (mode 0755) of a file or link `below` it.
///
/// # Errors
/// A parent is not a directory, something other than a file or link exists at `below`, or access is denied.
pub fn prepare(root: &Path, below: &Path) -> Result<(), HostError> {
    in_parent(("use", Missing::Made), root, below, |directory, name| {
        match kind_of(directory, name)? {
            None | Some(SFlag::S_IFREG | SFlag::S_IFLNK) => Ok(()),
            Some(_) => Err(not_regular()),
        }
    })
}

/// Creates the symbolic link `below` the directory `root`, and missing parents. Replaces an existing link.
///
/// # Errors
/// A part of the path is not a directory, something other than a link exists at `below`, or access is denied.
pub fn link(root: &Path, below: &Path, target: &Path) -> Result<(), HostError> {
    in_parent(("link", Missing::Made), root, below, |directory, name| {
        if readlinkat(directory, name).is_ok_and(|now| now == *target) {
            return Ok(());
        }
        unlink_in(directory, name)?;
        Ok(symlinkat(target, directory, name)?)
    })
}

/// Removes the link `below` the directory `root`. Does nothing if the path does not exist or is not a link.
///
/// # Errors
/// A part of the path is not a directory, or access is denied.
pub fn unlink(root: &Path, below: &Path) -> Result<(), HostError> {
    match in_parent(("unlink", Missing::Refused), root, below, |directory, name| {
        Ok(unlink_in(directory, name)?)
    }) {
        Err(error) if error.is_not_found() => Ok(()),
        removed => removed,
    }
}

/// Opens a file `below` the directory `root` for reading and appending. Creates the file with `mode` if it
/// does not exist. Replaces a link with a new file. Creates missing parent directories.
pub fn append(root: &Path, below: &Path, mode: u32) -> Result<File, HostError> {
    in_parent(("open", Missing::Made), root, below, |directory, name| {
        unlink_in(directory, name)?;
        let way = APPEND_FLAGS | OFlag::O_CREAT;
        regular(openat(directory, name, way, Mode::from_bits_truncate(mode))?.into())
    })
}

/// Opens an existing file `below` the directory `root` for reading and appending. Does not follow a link.
///
/// # Errors
/// A part of the path is not a directory, the file does not exist or is not a regular file, or access is denied.
pub fn open(root: &Path, below: &Path) -> Result<File, HostError> {
    in_parent(("open", Missing::Refused), root, below, |directory, name| {
        regular(openat(directory, name, APPEND_FLAGS, Mode::empty())?.into())
    })
}

/// Opens a file `below` the directory `root` for reading.
///
/// # Errors
/// The same errors as [`open`].
pub fn open_to_read(root: &Path, below: &Path) -> Result<File, HostError> {
    in_parent(("open", Missing::Refused), root, below, |directory, name| {
        match openat(directory, name, READ_FLAGS, Mode::empty()) {
            Err(Errno::ELOOP) => Err(not_regular()),
            opened => regular(opened?.into()),
        }
    })
}

/// The name and metadata of each file in the directory `below` `root`, including directories and links. Does not follow
/// links. Empty if the directory does not exist. Reads the directory until two readings have the same names, because
/// one reading can miss a file that is renamed at the same time.
///
/// # Errors
/// A part of the path is not a directory, access is denied, or the names change too fast.
pub fn list(root: &Path, below: &Path) -> Result<Vec<(OsString, Metadata)>, HostError> {
    let listed = descend(root, below, Missing::Refused).and_then(|directory| {
        let directory = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
        for _ in 0..MOST_READINGS {
            let before = names(&directory)?;
            let known: Vec<_> = before
                .iter()
                .filter_map(|name| {
                    Some((name.clone(), fs::symlink_metadata(directory.join(name)).ok()?))
                })
                .collect();
            if known.len() == before.len() && names(&directory)? == before {
                return Ok(known);
            }
        }
        Err(io::Error::other(
            "files were created, renamed or removed during every attempt to list the directory",
        ))
    });
    Ok(if_there(listed).or_cannot("list", &root.join(below))?.unwrap_or_default())
}

fn names(directory: &Path) -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Made,
    Refused,
}

/// Opens the directory `below` `root`; [`Missing::Made`] creates missing parts of `below`. Neither `root` nor parts of
/// `below` may be links.
fn descend(root: &Path, below: &Path, missing: Missing) -> io::Result<OwnedFd> {
    // Removes a trailing slash, with which `open` would follow a link at `root`.
    let root: PathBuf = root.components().collect();
    let mut directory = open_directory(&root, DIRECTORY_FLAGS, Mode::empty())
        .map_err(|e| if root.is_symlink() { is_a_link() } else { e.into() })?;
    for component in below.components() {
        let step = match component {
            Component::Normal(step) => step,
            Component::CurDir => continue,
            _ => return Err(io::ErrorKind::InvalidFilename.into()),
        };
        if missing == Missing::Made {
            let made = mkdirat(&directory, step, Mode::from_bits_truncate(MODE));
            made.or_else(|e| if e == Errno::EEXIST { Ok(()) } else { Err(e) })?;
        }
        directory = openat(&directory, step, DIRECTORY_FLAGS, Mode::empty())?;
    }
    Ok(directory)
}

/// Opens the parent directory of a file or link `below` the directory `root`, and calls `work` with that
/// directory and the name of the file or link. [`Missing::Made`] creates missing directories.
fn in_parent<T>(
    (action, missing): (&'static str, Missing),
    root: &Path,
    below: &Path,
    work: impl FnOnce(&OwnedFd, &OsStr) -> io::Result<T>,
) -> Result<T, HostError> {
    let path = root.join(below);
    let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
        return Err(HostError::new("name", &path, io::ErrorKind::InvalidFilename));
    };
    if missing == Missing::Made {
        file::ensure_directory(root, MODE)?;
    }
    descend(root, parent, missing)
        .and_then(|directory| work(&directory, name))
        .or_cannot(action, &path)
}

fn unlink_in(directory: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    match kind_of(directory, name)? {
        Some(SFlag::S_IFLNK) => unlinkat(directory, name, UnlinkatFlags::NoRemoveDir),
        _ => Ok(()),
    }
}

/// The file type of `name` in `directory`, without following a link. None if `name` does not exist.
fn kind_of(directory: &OwnedFd, name: &OsStr) -> Result<Option<SFlag>, Errno> {
    match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => Ok(None),
        found => Ok(Some(SFlag::from_bits_truncate(found?.st_mode & SFlag::S_IFMT.bits()))),
    }
}

fn is_a_link() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotADirectory,
        "a directory in this path is a symbolic link, which dockbridge does not follow",
    )
}

/// The mode of new directories: all users may read them, like kubelet's own log directories.
const MODE: u32 = 0o755;

const DIRECTORY_FLAGS: OFlag =
    OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Flags with which opening a FIFO does not block. dockbridge refuses a FIFO after opening it.
const READ_FLAGS: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_NOFOLLOW).union(OFlag::O_NONBLOCK).union(OFlag::O_CLOEXEC);
const APPEND_FLAGS: OFlag = READ_FLAGS.union(OFlag::O_RDWR).union(OFlag::O_APPEND);

/// After this many attempts, [`list`] fails if the names still change. kubelet renames far fewer files at once.
const MOST_READINGS: usize = 100;

#[cfg(test)]
mod tests;

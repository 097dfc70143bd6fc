//! Atomic replacement of files: a reader sees the old or the new text.
//!
//! A replaced file is a new inode: a bind mount made of the old one keeps showing the old text.
//! Temporary files start with a dot and end in `.tmp` in the target's own directory;
//! listings of the directory skip names with a leading dot. A killed process leaves them: the owner
//! of the directory removes files that are [`is_draft`] at its start.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use nix::{errno::Errno, libc};
use tracing::{info, warn};

use super::error::HostError;

/// The durability of a finished write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Survives a power loss: file and directory are flushed before the call returns.
    Synced,
    /// Survives the end of this process.
    Written,
}

/// The readers of a written file, independent of the umask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Only this user: 0600.
    Owner,
    /// Everybody: 0644, for files that pods see.
    Everyone,
}

/// Writes a file that only we may read: see [`replace_for`].
///
/// # Errors
/// The directory is absent or not writable, or the disk is full. The old text stays.
pub fn replace(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), HostError> {
    replace_for(Readers::Owner, path, bytes, durability)
}

/// Writes `bytes` beside `path` and renames them over it: readers see old or new, never a part.
pub fn replace_for(
    readers: Readers,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> Result<(), HostError> {
    rename_draft(readers, path, bytes, durability, |_| Ok(()))
}

/// Replaces the text of another program's file. Its mode and owner stay, and a symbolic link at `path` is
/// followed. A missing file and its directory are created readable for everybody. Survives a power loss.
pub fn replace_in_place(path: &Path, bytes: &[u8]) -> Result<(), HostError> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path.set_file_name(target);
    }
    let path = path.as_path();
    if let Some(parent) = path.parent() {
        ensure_directory(parent, 0o755)?;
    }
    let Ok(facts) = fs::metadata(path) else {
        return replace_for(Readers::Everyone, path, bytes, Durability::Synced);
    };
    rename_draft(Readers::Owner, path, bytes, Durability::Synced, |draft| {
        // The owner first: a change of it takes set-user-id bits.
        std::os::unix::fs::chown(draft, Some(facts.uid()), Some(facts.gid()))?;
        fs::set_permissions(draft, facts.permissions())
    })
}

/// Removes a file; returns whether it existed. With [`Durability::Synced`] the removal survives a
/// power loss.
pub fn remove_if_present(path: &Path, durability: Durability) -> Result<bool, HostError> {
    match fs::remove_file(path) {
        Ok(()) if durability == Durability::Synced => sync_parent(path).map(|()| true),
        Ok(()) => Ok(true),
        Err(e) if is_absence(&e) => Ok(false),
        Err(e) => Err(HostError::new("remove", path, e)),
    }
}

/// Reads a file of at most `limit` bytes; none if it does not exist.
///
/// # Errors
/// Unreadable, larger than `limit`, or not a regular file: reading a FIFO would never return.
pub fn read_if_present(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, HostError> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = match opened.and_then(regular) {
        Ok(file) => file,
        Err(e) if is_absence(&e) => return Ok(None),
        Err(e) => return Err(HostError::new("open", path, e)),
    };
    let mut bytes = Vec::new();
    let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|e| HostError::new("read", path, e))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        let reason =
            io::Error::new(io::ErrorKind::FileTooLarge, "larger than this kind of file can be");
        return Err(HostError::new("read", path, reason));
    }
    Ok(Some(bytes))
}

/// Opens a regular file. A symbolic link is not followed.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => Err(not_regular()),
        opened => regular(opened?),
    }
}

/// Reads a text of at most `limit` bytes. The error does not name the file.
///
/// # Errors
/// As [`read_if_present`]; absent, or not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let bytes = read_if_present(path, limit).map_err(|error| error.source)?;
    let bytes = bytes.ok_or(Errno::ENOENT)?;
    String::from_utf8(bytes).map_err(|wrong| io::Error::new(io::ErrorKind::InvalidData, wrong))
}

/// The paths in a directory, sorted. Empty if there is no such directory.
pub fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let listed = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut paths = listed.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

pub(super) fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

pub(super) fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

/// Makes a directory and those above it, with `mode` for the ones it makes.
pub fn ensure_directory(path: &Path, mode: u32) -> Result<(), HostError> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(|e| HostError::new("create directory", path, e))
}

/// Writes a draft, lets `prepare` change it, and renames it.
fn rename_draft(
    readers: Readers,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
    prepare: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), HostError> {
    let draft = draft_of(path);
    let done = write_draft(&draft, bytes, readers, durability).and_then(|()| {
        let renamed = prepare(&draft).and_then(|()| fs::rename(&draft, path));
        renamed.map_err(|e| HostError::new("replace", path, e))
    });
    if done.is_err() {
        // The first failure is reported; a remaining draft is skipped by readers.
        let _ = fs::remove_file(&draft);
    }
    done?;
    match durability {
        Durability::Synced => sync_parent(path),
        Durability::Written => Ok(()),
    }
}

fn write_draft(
    draft: &Path,
    bytes: &[u8],
    readers: Readers,
    durability: Durability,
) -> Result<(), HostError> {
    let fail = |e| HostError::new("write", draft, e);
    let mode = match readers {
        Readers::Owner => 0o600,
        Readers::Everyone => 0o644,
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .custom_flags(libc::O_NOFOLLOW)
        .open(draft)
        .map_err(fail)?;
    file.set_permissions(Permissions::from_mode(mode)).map_err(fail)?;
    file.write_all(bytes).map_err(fail)?;
    match durability {
        Durability::Synced => file.sync_all().map_err(fail),
        Durability::Written => Ok(()),
    }
}

/// Whether this is the name of a draft, in a directory with no other writer.
pub fn is_draft(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(DRAFT)
}

/// Makes a directory that everybody can pass through and only we can list or change, whatever the
/// umask. An existing directory stays as it is.
pub fn ensure_passable(path: &Path) -> Result<(), HostError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o711))
            .map_err(|e| HostError::new("set the mode of", path, e)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(e) => Err(HostError::new("create directory", path, e)),
    }
}

/// Makes a directory that only we and `group` can pass through, and only we can list or change; without
/// a group only we. An existing directory gets this mode and group.
pub fn ensure_passable_by(path: &Path, group: Option<u32>) -> Result<(), HostError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => {
            return Err(HostError::new("create directory", path, e));
        }
        _ => {}
    }
    // Closed before its group changes: the mode may be that of another group.
    let closed = fs::set_permissions(path, Permissions::from_mode(0o700));
    closed.map_err(|e| HostError::new("set the mode of", path, e))?;
    let Some(group) = group else { return Ok(()) };
    std::os::unix::fs::lchown(path, None, Some(group))
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o710)))
        .map_err(|e| HostError::new("set the group of", path, e))
}

/// Whether a file or directory belongs to this process's user and no other user can write to it. False
/// for a link.
pub fn is_ours_alone(path: &Path) -> Result<bool, HostError> {
    let facts = fs::symlink_metadata(path).map_err(|e| HostError::new("read", path, e))?;
    let ours = facts.uid() == nix::unistd::geteuid().as_raw();
    Ok(ours && !facts.is_symlink() && facts.mode() & 0o022 == 0)
}

/// Whether two paths lead to one file: `/var/run` is a link to `/run`.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    one == other || real(one).is_some_and(|one| real(other) == Some(one))
}

/// Whether this is the name of a draft of a process that has ended, in a directory with other
/// writers.
pub fn is_abandoned_draft(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|rest| rest.strip_suffix(DRAFT));
    let writer = inner.and_then(|rest| rest.rsplit_once('.')).map(|(_, writer)| writer);
    let Some((pid, serial)) = writer.and_then(|writer| writer.split_once('-')) else {
        return false;
    };
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    is_number(pid) && is_number(serial) && !Path::new("/proc").join(pid).exists()
}

/// Removes a draft that is [`is_draft`] or [`is_abandoned_draft`].
pub fn remove_draft(draft: &Path) {
    match fs::remove_file(draft) {
        Ok(()) => info!(file = %draft.display(), "removed the file of an unfinished write"),
        Err(error) => {
            warn!(file = %draft.display(), %error, "cannot remove the file of an unfinished write");
        }
    }
}

/// The process id and a counter keep two writers of one target apart. A draft of an earlier
/// process with our pid is possible, hence the removal.
fn draft_of(path: &Path) -> PathBuf {
    let serial = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{serial}{DRAFT}", process::id()));
    let draft = path.with_file_name(name);
    let _ = fs::remove_file(&draft);
    draft
}

/// Flushes the directory of a file, so that its new name survives a power loss.
pub fn sync_parent(path: &Path) -> Result<(), HostError> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(parent).and_then(|directory| directory.sync_all());
    synced.map_err(|e| HostError::new("flush", parent, e))
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

const DRAFT: &str = ".tmp";
/// As many as the kernel follows.
const MAX_LINKS: usize = 40;
static DRAFTS: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests;

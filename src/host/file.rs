//! Atomic replacement of files: a reader sees the old or the new text.
//!
//! A replaced file is a new inode: a bind mount made of the old one keeps showing the old text.
//! Temporary files start with a dot and end in `.tmp` in the target's own directory;
//! listings of the directory skip names with a leading dot. A killed process leaves them: the owner
//! of the directory removes files that are [`is_draft`] at its start.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use nix::{errno::Errno, libc};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tracing::{info, warn};

use super::error::{HostError, OrCannot as _};

/// The durability of a finished write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Survives a power loss: file and directory are flushed before the call returns.
    Synced,
    /// Survives the end of this process.
    Written,
}

/// Who may read a written file, whatever the umask is.
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

/// Writes `bytes` to a file next to `path` and renames it to `path`: readers see old or new, never a
/// part.
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

/// Gives a file a second name. Fails if something has it. On a file system without hard links, such as vfat, the file
/// loses its first name.
pub fn link_new(from: &Path, to: &Path) -> Result<(), HostError> {
    let linked = match fs::hard_link(from, to) {
        Err(e) if has_no_links(&e) => {
            renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(io::Error::from)
        }
        linked => linked,
    };
    linked.or_cannot("rename to", to)
}

/// Whether this error of a hard link means that the file system has none.
pub fn has_no_links(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported)
}

/// Whether both are names of one file. Links are not followed.
pub fn is_linked(one: &Path, other: &Path) -> Result<bool, HostError> {
    let file = if_there(fs::symlink_metadata(one)).or_cannot("read", one)?;
    file.map_or(Ok(false), |file| has_name(&file, other))
}

/// Whether the file has this name. Links are not followed.
pub fn has_name(file: &Metadata, name: &Path) -> Result<bool, HostError> {
    let named = if_there(fs::symlink_metadata(name)).or_cannot("read", name)?;
    Ok(named.is_some_and(|named| (named.dev(), named.ino()) == (file.dev(), file.ino())))
}

/// Removes a file; returns whether it existed. With [`Durability::Synced`] the removal survives a
/// power loss. Absence is not an error.
pub fn remove_if_present(path: &Path, durability: Durability) -> Result<bool, HostError> {
    match fs::remove_file(path) {
        Err(e) if is_absence(&e) => return Ok(false),
        removed => removed.or_cannot("remove", path)?,
    }
    if durability == Durability::Synced {
        sync_parent(path)?;
    }
    Ok(true)
}

/// Reads a file of at most `limit` bytes; none if it does not exist.
///
/// # Errors
/// Unreadable, larger than `limit`, or not a regular file: reading a FIFO would never return.
pub fn read_if_present(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, HostError> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = match opened.and_then(regular) {
        Err(e) if is_absence(&e) => return Ok(None),
        opened => opened.or_cannot("open", path)?,
    };
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).or_cannot("read", path)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        let reason =
            io::Error::new(io::ErrorKind::FileTooLarge, "larger than this kind of file can be");
        return Err(HostError::new("read", path, reason));
    }
    Ok(Some(bytes))
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
    let Some(listed) = if_there(fs::read_dir(directory))? else { return Ok(Vec::new()) };
    let mut paths = listed.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// None if nothing has the path.
pub fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

pub(super) fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

pub(super) fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

/// Makes a directory and those above it, with `mode` for the ones it makes. Fails if something else has the name.
pub fn ensure_directory(path: &Path, mode: u32) -> Result<(), HostError> {
    DirBuilder::new().recursive(true).mode(mode).create(path).or_cannot("create directory", path)
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
    let written = write_draft(&draft, bytes, readers, durability).or_cannot("write", &draft);
    let done = written.and_then(|()| {
        prepare(&draft).and_then(|()| fs::rename(&draft, path)).or_cannot("replace", path)
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
) -> io::Result<()> {
    let mode = match readers {
        Readers::Owner => 0o600,
        Readers::Everyone => 0o644,
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .custom_flags(libc::O_NOFOLLOW)
        .open(draft)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    match durability {
        Durability::Synced => file.sync_all(),
        Durability::Written => Ok(()),
    }
}

/// Whether this is the name of a draft. For directories without other writers.
pub fn is_draft(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(DRAFT)
}

/// Makes a directory that everybody can pass through and only we can list or change, whatever the
/// umask. An existing directory stays as it is. Fails if something else has the name.
pub fn ensure_passable(path: &Path) -> Result<(), HostError> {
    if !make_private_directory(path)? {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(0o711)).or_cannot("set the mode of", path)
}

/// Makes a directory that only we can enter. Returns false if it exists.
pub(super) fn make_private_directory(path: &Path) -> Result<bool, HostError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        made => made.or_cannot("create directory", path).map(|()| true),
    }
}

/// Makes a directory that only we and `group` can pass through, and only we can list or change; without
/// a group only we. An existing directory gets this mode and group. Fails if something else has the name.
pub fn ensure_passable_by(path: &Path, group: Option<u32>) -> Result<(), HostError> {
    make_private_directory(path)?;
    // Closed before its group changes: the mode may be that of another group.
    fs::set_permissions(path, Permissions::from_mode(0o700)).or_cannot("set the mode of", path)?;
    let Some(group) = group else { return Ok(()) };
    std::os::unix::fs::lchown(path, None, Some(group))
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o710)))
        .or_cannot("set the group of", path)
}

/// Whether a file or directory belongs to this process's user and no other user can write to it. False
/// for a link. Fails if there is nothing at `path`.
pub fn is_ours_alone(path: &Path) -> Result<bool, HostError> {
    let facts = fs::symlink_metadata(path).or_cannot("read", path)?;
    let ours = facts.uid() == nix::unistd::geteuid().as_raw();
    Ok(ours && !facts.is_symlink() && facts.mode() & 0o022 == 0)
}

/// Whether two paths lead to one file: `/var/run` is a link to `/run`.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    one == other || real(one).is_some_and(|one| real(other) == Some(one))
}

/// Whether this is the name of a draft whose writer has ended. For directories with several writers.
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
    File::open(parent).and_then(|directory| directory.sync_all()).or_cannot("flush", parent)
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

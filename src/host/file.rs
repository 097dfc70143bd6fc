//! Replaces files atomically: a reader sees either the old or the new text.
//!
//! The file gets a new inode, so a bind mount of the old file still shows the old text. The new text is first written
//! to a draft: a file in the same directory whose name starts with a dot and ends in `.tmp`. dockbridge ignores drafts
//! when it lists its own directories. A process that is killed during a write leaves its draft. dockbridge removes the
//! drafts in its own directories at its next start, or when it removes the directory.

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

/// What a finished write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The write survives a power loss: the file and its directory are flushed before the call returns.
    Synced,
    /// The write survives the end of this process, but might not survive a power loss.
    Written,
}

/// Replaces a file as [`replace_with_mode`] does. Only dockbridge's own user may read the new file.
///
/// # Errors
/// The directory is absent or not writable, or the disk is full or fails. After an error, the file has its old text, or
/// its new text if only flushing the directory failed.
pub fn replace(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), HostError> {
    replace_with_mode(0o600, path, bytes, durability)
}

/// Writes `bytes` to a draft and renames the draft to `path`. The file gets `mode`, whatever the umask is.
pub fn replace_with_mode(
    mode: u32,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> Result<(), HostError> {
    rename_draft(mode, path, bytes, durability, |_| Ok(()))
}

/// Replaces the text of another program's file. Keeps the file's mode and owner, and follows a symbolic link at `path`.
/// Creates a missing file, readable by all users, and its directory. Flushes the file and its directory.
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
        return replace_with_mode(0o644, path, bytes, Durability::Synced);
    };
    rename_draft(0o600, path, bytes, Durability::Synced, |draft| {
        // Sets the owner before the mode, because changing the owner clears set-user-id bits.
        std::os::unix::fs::chown(draft, Some(facts.uid()), Some(facts.gid()))?;
        fs::set_permissions(draft, facts.permissions())
    })
}

/// Gives the file `from` the additional name `to`, as a hard link. Fails if `to` exists. If linking fails and the
/// file system may lack hard links ([`has_no_links`]), as vfat does, renames `from` to `to` instead.
pub fn link_new(from: &Path, to: &Path) -> Result<(), HostError> {
    let linked = match fs::hard_link(from, to) {
        Err(e) if has_no_links(&e) => {
            renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(io::Error::from)
        }
        linked => linked,
    };
    linked.or_cannot("rename to", to)
}

/// Whether this error may mean that the file system does not support hard links.
pub fn has_no_links(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported)
}

/// Whether both paths are names (hard links) of the same file. A symbolic link to the file does not count.
pub fn is_linked(one: &Path, other: &Path) -> Result<bool, HostError> {
    let file = if_there(fs::symlink_metadata(one)).or_cannot("read", one)?;
    file.map_or(Ok(false), |file| has_name(&file, other))
}

/// Whether the path `name` is a name (hard link) of this file. A symbolic link to the file does not count.
pub fn has_name(file: &Metadata, name: &Path) -> Result<bool, HostError> {
    let named = if_there(fs::symlink_metadata(name)).or_cannot("read", name)?;
    Ok(named.is_some_and(|named| (named.dev(), named.ino()) == (file.dev(), file.ino())))
}

/// Removes a file if it exists, and returns whether it existed. With [`Durability::Synced`], the removal survives a
/// power loss.
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

/// Reads a file of at most `limit` bytes; None if the file does not exist.
///
/// # Errors
/// The file is unreadable, larger than `limit`, or not a regular file: reading a FIFO could block forever.
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
            io::Error::new(io::ErrorKind::FileTooLarge, "the file is larger than its size limit");
        return Err(HostError::new("read", path, reason));
    }
    Ok(Some(bytes))
}

/// Reads a text file of at most `limit` bytes. The error does not name the file.
///
/// # Errors
/// The errors of [`read_if_present`]; also, the file does not exist or is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let bytes = read_if_present(path, limit).map_err(|error| error.source)?;
    let bytes = bytes.ok_or(Errno::ENOENT)?;
    String::from_utf8(bytes).map_err(|wrong| io::Error::new(io::ErrorKind::InvalidData, wrong))
}

/// The paths in a directory, sorted. Empty if the directory does not exist.
pub fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(listed) = if_there(fs::read_dir(directory))? else { return Ok(Vec::new()) };
    let mut paths = listed.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Turns the error that a path does not exist into None.
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

/// Creates a directory and its missing parents with `mode`, without the bits of the umask. Fails if `path` is a file.
pub fn ensure_directory(path: &Path, mode: u32) -> Result<(), HostError> {
    DirBuilder::new().recursive(true).mode(mode).create(path).or_cannot("create directory", path)
}

/// Writes a draft, lets `prepare` change the draft, and renames the draft to `path`.
fn rename_draft(
    mode: u32,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
    prepare: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), HostError> {
    let draft = draft_of(path);
    let written = write_draft(&draft, bytes, mode, durability).or_cannot("write", &draft);
    let done = written.and_then(|()| {
        prepare(&draft).and_then(|()| fs::rename(&draft, path)).or_cannot("replace", path)
    });
    if done.is_err() {
        // Ignores an error of the removal, because the first error is returned.
        let _ = fs::remove_file(&draft);
    }
    done?;
    match durability {
        Durability::Synced => sync_parent(path),
        Durability::Written => Ok(()),
    }
}

fn write_draft(draft: &Path, bytes: &[u8], mode: u32, durability: Durability) -> io::Result<()> {
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

/// Whether `name` is the name of a draft. Use only for directories in which no other process is writing.
pub fn is_draft(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(DRAFT)
}

/// Creates a directory that all users can pass through but only dockbridge's own user can list or change, whatever the
/// umask is. Does not change an existing directory. Fails if `path` is a file.
pub fn ensure_passable(path: &Path) -> Result<(), HostError> {
    if !make_private_directory(path)? {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(0o711)).or_cannot("set the mode of", path)
}

/// Creates a directory that only dockbridge's own user can enter. Returns false if the directory already exists.
pub(super) fn make_private_directory(path: &Path) -> Result<bool, HostError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        made => made.or_cannot("create directory", path).map(|()| true),
    }
}

/// Creates a directory that only dockbridge's own user and `group` can pass through, and only dockbridge's own user can
/// list or change. An existing directory gets the same mode, and `group` if there is one. Fails if `path` is a file.
pub fn ensure_passable_by(path: &Path, group: Option<u32>) -> Result<(), HostError> {
    make_private_directory(path)?;
    // Removes the permissions of the old group, which the new group would otherwise have for a moment.
    fs::set_permissions(path, Permissions::from_mode(0o700)).or_cannot("set the mode of", path)?;
    let Some(group) = group else { return Ok(()) };
    std::os::unix::fs::lchown(path, None, Some(group))
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o710)))
        .or_cannot("set the group and mode of", path)
}

/// Whether a file or directory belongs to this process's user and no other user can write to it. False for a
/// symbolic link. Fails if `path` does not exist.
pub fn is_ours_alone(path: &Path) -> Result<bool, HostError> {
    let facts = fs::symlink_metadata(path).or_cannot("read", path)?;
    let ours = facts.uid() == nix::unistd::geteuid().as_raw();
    Ok(ours && !facts.is_symlink() && facts.mode() & 0o022 == 0)
}

/// Whether two paths are the same once symbolic links are resolved, for example `/var/run/a` and `/run/a`.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    one == other || real(one).is_some_and(|one| real(other) == Some(one))
}

/// Whether `name` is the name of a draft whose writer's pid is free, for directories in which several processes write.
pub fn is_abandoned_draft(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|rest| rest.strip_suffix(DRAFT));
    let writer = inner.and_then(|rest| rest.rsplit_once('.')).map(|(_, writer)| writer);
    let Some((pid, serial)) = writer.and_then(|writer| writer.split_once('-')) else {
        return false;
    };
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    is_number(pid) && is_number(serial) && !Path::new("/proc").join(pid).exists()
}

/// Removes a draft that [`is_draft`] or [`is_abandoned_draft`] has recognised.
pub fn remove_draft(draft: &Path) {
    match fs::remove_file(draft) {
        Ok(()) => info!(file = %draft.display(), "removed the file of an unfinished write"),
        Err(error) => {
            warn!(file = %draft.display(), %error, "cannot remove the file of an unfinished write");
        }
    }
}

/// The path of a new draft for `path`. The pid and a counter in the draft's name keep two writers of `path` apart.
/// Removes an existing draft with the same name, which an earlier process with the same pid may have left.
fn draft_of(path: &Path) -> PathBuf {
    let serial = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{serial}{DRAFT}", process::id()));
    let draft = path.with_file_name(name);
    let _ = fs::remove_file(&draft);
    draft
}

/// Flushes the directory of a file, so that a new name of the file, or its removal, survives a power loss.
pub fn sync_parent(path: &Path) -> Result<(), HostError> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|directory| directory.sync_all()).or_cannot("flush", parent)
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

const DRAFT: &str = ".tmp";
/// How many symbolic links in a row are followed at most, as in the kernel.
const MAX_LINKS: usize = 40;
static DRAFTS: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests;

//! Applies the changed files of a checkpointed container to the root file system of the new container.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use tar::{Archive, Entry, EntryType};

use crate::host::root_files::{Properties, RootFiles};

/// Deletes the paths in `deleted` (CRI-O's list), and applies archives in the format of an image layer.
///
/// # Errors
/// Fails with the path that cannot be changed or is not accepted, or if an archive cannot be read.
pub(in crate::oci_runtime) fn apply(
    root: &RootFiles,
    archives: impl Iterator<Item = impl Read>,
    deleted: &[PathBuf],
) -> io::Result<()> {
    for path in deleted {
        root.remove(path).map_err(|error| at(path, &error))?;
    }
    for archive in archives {
        for entry in Archive::new(archive).entries()? {
            let mut entry = entry?;
            let path = entry.path()?.into_owned();
            add(root, &path, &mut entry).map_err(|error| at(&path, &error))?;
        }
    }
    Ok(())
}

fn add(root: &RootFiles, path: &Path, entry: &mut Entry<'_, impl Read>) -> io::Result<()> {
    if path.components().count() > MAX_DEPTH {
        return Err(refused("is too deep"));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name == OPAQUE {
        return root.clear(path.parent().unwrap_or(Path::new("")));
    }
    if let Some(deleted) = name.strip_prefix(DELETED) {
        return match deleted {
            // A marker without the name of a file would otherwise remove the whole directory.
            "" | "." | ".." => Err(refused("marks a deleted file but does not name one")),
            deleted => root.remove(&path.with_file_name(deleted)),
        };
    }
    let properties = properties(entry)?;
    let target = |entry: &Entry<'_, _>| {
        Ok::<_, io::Error>(entry.link_name()?.ok_or_else(|| refused("has no target"))?.into_owned())
    };
    match entry.header().entry_type() {
        EntryType::Directory => root.directory(path, &properties),
        EntryType::Regular => root.file(path, &properties, entry),
        EntryType::Symlink => root.link(path, &target(entry)?, &properties),
        EntryType::Link => root.other_name(path, &target(entry)?),
        _ => Err(refused("is neither a file, a directory nor a link")),
    }
}

fn properties(entry: &mut Entry<'_, impl Read>) -> io::Result<Properties> {
    let mut attributes = Vec::new();
    for extension in entry.pax_extensions()?.into_iter().flatten() {
        let extension = extension?;
        let name = extension.key().ok().and_then(|key| key.strip_prefix("SCHILY.xattr."));
        // Leaves out other attributes, such as those of overlayfs and the SELinux label of the old container.
        let is_restored = |name: &&str| {
            name.starts_with("user.")
                || name.starts_with("system.posix_acl_")
                || *name == "security.capability"
        };
        if let Some(name) = name.filter(is_restored) {
            attributes.push((name.to_owned(), extension.value_bytes().to_vec()));
        }
    }
    let header = entry.header();
    let id = |id: u64| {
        u32::try_from(id).map_err(|_| refused("has a user or group id of more than 32 bits"))
    };
    let (uid, gid) = (id(header.uid()?)?, id(header.gid()?)?);
    Ok(Properties { uid, gid, mode: header.mode()?, modified: header.mtime()?, attributes })
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("/{}: {error}", path.display()))
}

/// Maximum number of names in a path, more than dockbridge writes. The removal of a directory needs memory per level.
const MAX_DEPTH: usize = 1000;
/// Markers in image layers: a prefix before a deleted file's name, and the name of a file that empties its directory.
const DELETED: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

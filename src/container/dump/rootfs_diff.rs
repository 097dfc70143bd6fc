//! The changed files of a container: `rootfs-diff.tar` in the format of an image layer, and `deleted.files`.
//!
//! containerd applies the archive as a layer and reads deletions from its `.wh.` entries. CRI-O unpacks the
//! archive and reads deletions from `deleted.files`.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufWriter, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use tar::{Builder, EntryType, Header};

use super::order;
use crate::{
    host::upper_layer::{EntryKind, LayerEntry, walk},
    model::restore::{DELETED_FILES, ROOTFS_DIFF},
};

/// Writes the archive and the list of deleted files into the directory.
///
/// # Errors
/// A path of the layer cannot be read or saved (the error names the path), or a file cannot be written.
pub(super) fn write(layer: &Path, directory: &Path) -> io::Result<()> {
    let file = BufWriter::new(File::create_new(directory.join(ROOTFS_DIFF))?);
    let mut diff =
        Diff { archive: Builder::new(file), deleted: Vec::new(), linked: HashMap::new() };
    walk(layer, &mut |entry| diff.add(entry))?;
    diff.archive.into_inner()?.flush()?;
    order::write(directory, DELETED_FILES, &diff.deleted).map_err(|error| error.source)
}

/// About how many bytes the archive of the changed files needs. Fails if a path cannot be read.
pub(super) fn size(layer: &Path) -> io::Result<u64> {
    let mut total = 0_u64;
    walk(layer, &mut |entry| {
        total = total.saturating_add(entry.metadata.len()).saturating_add(HEADERS);
        Ok(())
    })?;
    Ok(total)
}

struct Diff<W: Write> {
    archive: Builder<W>,
    deleted: Vec<PathBuf>,
    /// The first name of each file with several names, by inode. Inode numbers are unique, because a layer is
    /// on one file system.
    linked: HashMap<u64, PathBuf>,
}

impl<W: Write> Diff<W> {
    fn add(&mut self, entry: LayerEntry<'_>) -> io::Result<()> {
        let LayerEntry { path, metadata, attributes, kind } = entry;
        let mut header = Header::new_gnu();
        header.set_metadata(&metadata);
        match kind {
            EntryKind::Deleted => {
                self.deleted.push(Path::new("/").join(path));
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                self.mark(&path.with_file_name(format!(".wh.{name}")))
            }
            EntryKind::Directory { is_opaque } => {
                self.attributes(&attributes)?;
                header.set_size(0);
                self.archive.append_data(&mut header, path, io::empty())?;
                if is_opaque { self.mark(&path.join(".wh..wh..opq")) } else { Ok(()) }
            }
            EntryKind::Link(target) => {
                header.set_size(0);
                self.archive.append_link(&mut header, path, target)
            }
            EntryKind::File(file) => {
                if metadata.nlink() > 1 {
                    if let Some(first) = self.linked.get(&metadata.ino()) {
                        header.set_entry_type(EntryType::Link);
                        header.set_size(0);
                        return self.archive.append_link(&mut header, path, first);
                    }
                    self.linked.insert(metadata.ino(), path.to_owned());
                }
                self.attributes(&attributes)?;
                self.archive.append_data(&mut header, path, Exactly::new(file, metadata.len()))
            }
        }
    }

    /// Adds a marker of image layers (whiteout), which is an empty file.
    fn mark(&mut self, path: &Path) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_mode(0o600);
        header.set_size(0);
        self.archive.append_data(&mut header, path, io::empty())
    }

    fn attributes(&mut self, attributes: &[(String, Vec<u8>)]) -> io::Result<()> {
        let named: Vec<_> = attributes
            .iter()
            .map(|(name, value)| (format!("SCHILY.xattr.{name}"), value))
            .collect();
        if named.is_empty() {
            return Ok(());
        }
        self.archive.append_pax_extensions(
            named.iter().map(|(name, value)| (name.as_str(), value.as_slice())),
        )
    }
}

/// Reads exactly `left` bytes, because the archive's header already states the size. Ignores further bytes;
/// fails if `inner` has fewer bytes.
pub(super) struct Exactly<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Exactly<R> {
    pub(super) const fn new(inner: R, left: u64) -> Self {
        Self { inner, left }
    }
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.inner.read(buffer.get_mut(..most).unwrap_or_default())?;
        if read == 0 && most > 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            ));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// Enough bytes for the headers and the padding of most archive entries.
const HEADERS: u64 = 2048;

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_layer_becomes_an_archive_with_links_and_long_names() {
        let place = tempfile::tempdir().unwrap();
        let layer = place.path().join("layer");
        let long = "long".repeat(40);
        fs::create_dir_all(layer.join(&long)).unwrap();
        fs::write(layer.join(&long).join(&long), "content").unwrap();
        fs::hard_link(layer.join(&long).join(&long), layer.join("other")).unwrap();
        symlink("/x", layer.join("link")).unwrap();
        write(&layer, place.path()).unwrap();
        let mut archive = tar::Archive::new(File::open(place.path().join(ROOTFS_DIFF)).unwrap());
        let mut seen: Vec<String> = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let kind = entry.header().entry_type();
            let link = entry.link_name().unwrap().map(|to| to.display().to_string());
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            seen.push(format!("{kind:?} {name} {link:?} {text}"));
        }
        assert_eq!(seen.len(), 4, "{seen:?}");
        let file = format!("{long}/{long}");
        let is_in = |text: &str| seen.iter().any(|line| line.contains(text));
        assert!(is_in("Symlink link Some(\"/x\")"), "{seen:?}");
        assert!(is_in("content"), "{seen:?}");
        assert!(
            is_in(&format!("Link {file} Some(\"other\")"))
                || is_in(&format!("Link other Some({file:?})"))
        );
        assert_eq!(fs::read(place.path().join(DELETED_FILES)).unwrap(), b"[]");
        assert!(size(&layer).unwrap() > 7);
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let mut text = String::new();
        Exactly::new(&b"abcdef"[..], 3).read_to_string(&mut text).unwrap();
        assert_eq!(text, "abc");
        let short = Exactly::new(&b"ab"[..], 3).read_to_string(&mut text).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
    }
}

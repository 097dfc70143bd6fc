//! Reads the archive of a container checkpoint, which anybody may have written. [`Contents::find`] checks the entries
//! before [`Contents::unpack`] writes files.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufRead as _, BufReader, Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::{Component, Path, PathBuf},
};

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use tar::{Archive, Entries, Entry, EntryType, PaxExtensions};

use crate::model::restore::{DELETED_FILES, IMAGES, ROOTFS_DIFF};

/// The files in an archive that a restore uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents(Vec<Content>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    path: PathBuf,
    offset: u64,
    size: u64,
}

impl Contents {
    /// Finds the files that a restore uses.
    ///
    /// # Errors
    /// Fails if the archive is damaged, is truncated, or has too many entries or a path with `..`, or if a file that a
    /// restore uses is there twice, is in a wrong directory, or is not a regular file.
    pub fn find(archive: &mut (impl Read + Seek)) -> io::Result<Self> {
        let length = archive.seek(SeekFrom::End(0))?;
        archive.rewind()?;
        let (mut found, mut paths) = (Vec::new(), HashSet::new());
        // Long names are separate entries, which are skipped: names of files that a restore uses are short.
        visit(Archive::new(archive).entries_with_seek()?, &mut |entry| {
            let (path, kind) = (entry.path()?, entry.header().entry_type());
            let refused = |what: &str| Err(refused(format!("{} {what}", path.display())));
            if path.components().any(|part| part == Component::ParentDir) {
                return refused("leaves the archive");
            }
            let path: PathBuf =
                path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
            if !is_used(&path) || kind == EntryType::Directory && path == Path::new(IMAGES) {
                return Ok(());
            }
            if kind != EntryType::Regular {
                return refused("is not a plain file");
            }
            if path.components().count() > 2 {
                return refused("is in an unexpected directory");
            }
            if !paths.insert(path.clone()) {
                return refused("is there twice");
            }
            let (offset, size) = (entry.raw_file_position(), entry.size());
            if offset.checked_add(size).is_none_or(|end| end > length) {
                return refused("is truncated");
            }
            found.push(Content { path, offset, size });
            Ok(())
        })?;
        Ok(Self(found))
    }

    /// Total size in bytes that the found files have in the archive.
    pub fn size(&self) -> u64 {
        self.0.iter().map(|content| content.size).fold(0, u64::saturating_add)
    }

    /// The documents that [`Described::read`] reads.
    ///
    /// # Errors
    /// Fails if a document is missing or too large.
    pub fn documents(&self, archive: &mut (impl Read + Seek)) -> io::Result<[Vec<u8>; 2]> {
        Ok([self.document(archive, CONFIG)?, self.document(archive, SPEC)?])
    }

    fn document(&self, archive: &mut (impl Read + Seek), name: &str) -> io::Result<Vec<u8>> {
        let content = self.0.iter().find(|content| content.path == Path::new(name));
        let content = content.ok_or_else(|| refused(format!("the archive has no {name}")))?;
        if content.size > LARGEST_DOCUMENT {
            return Err(refused(format!("{name} is too large")));
        }
        let mut bytes = Vec::new();
        archive.seek(SeekFrom::Start(content.offset))?;
        archive.take(content.size).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes the found files into a directory that so far has only the directory [`IMAGES`]. Decompresses the archive
    /// of changed files. All files together may take `space` bytes.
    ///
    /// # Errors
    /// Fails if a read or write fails, the files need more space, the archive has shrunk, or `is_over` returns true.
    pub fn unpack(
        &self,
        archive: &mut (impl Read + Seek),
        (directory, mut space): (&Path, u64),
        is_over: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        for Content { path, offset, size } in &self.0 {
            if archive.seek(SeekFrom::End(0))? < offset.saturating_add(*size) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            archive.seek(SeekFrom::Start(*offset))?;
            let mut options = File::options();
            let mut file =
                options.write(true).create_new(true).mode(0o600).open(directory.join(path))?;
            let content = archive.by_ref().take(*size);
            let mut content: Box<dyn Read + '_> = match path == Path::new(ROOTFS_DIFF) {
                true => decompressed(content)?,
                false => Box::new(content),
            };
            loop {
                if is_over() {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                let written = io::copy(&mut content.by_ref().take(PIECE), &mut file)?;
                space = space.checked_sub(written).ok_or_else(full)?;
                if written == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The container of a container checkpoint, as the documents in the archive describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Names of the container's image, the most exact name first.
    pub images: Vec<String>,
    pub command: Vec<String>,
    pub directory: PathBuf,
    pub environment: Vec<String>,
}

impl Described {
    /// Reads [`CONFIG`] and [`SPEC`], as dockbridge, containerd and CRI-O write them.
    ///
    /// # Errors
    /// Fails if the documents are not valid, or name no image.
    pub fn read([config, spec]: &[Vec<u8>; 2]) -> io::Result<Self> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Config {
            rootfs_image_ref: String,
            rootfs_image_name: String,
        }
        #[derive(Deserialize)]
        struct Spec {
            process: Process,
        }
        #[derive(Deserialize)]
        struct Process {
            args: Vec<String>,
            #[serde(default)]
            cwd: PathBuf,
            #[serde(default)]
            env: Vec<String>,
        }
        let damaged = |name: &str, error| refused(format!("archived {name} is not valid: {error}"));
        let config: Config = serde_json::from_slice(config).map_err(|e| damaged(CONFIG, e))?;
        let spec: Spec = serde_json::from_slice(spec).map_err(|e| damaged(SPEC, e))?;
        let mut images = vec![config.rootfs_image_ref, config.rootfs_image_name];
        images.retain(|name| !name.is_empty());
        if images.is_empty() {
            return Err(refused(format!("{CONFIG} in the archive names no image")));
        }
        let Process { args, cwd, env } = spec.process;
        Ok(Self { images, command: args, directory: cwd, environment: env })
    }
}

/// Reads the archive of changed files, and decompresses it if it is compressed with gzip, as containerd's archives are.
///
/// # Errors
/// Fails if the archive cannot be read.
pub(in crate::oci_runtime) fn decompressed<'a>(
    archive: impl Read + 'a,
) -> io::Result<Box<dyn Read + 'a>> {
    let mut archive = BufReader::new(archive);
    Ok(match archive.fill_buf()?.starts_with(&GZIP) {
        true => Box::new(MultiGzDecoder::new(archive)),
        false => Box::new(archive),
    })
}

/// Refuses an archive of changed files that needs more than `space` bytes, has a sparse file, or has more files, names
/// or attributes than this module allows.
pub(in crate::oci_runtime) fn check_bounds(archive: impl Read, space: u64) -> io::Result<()> {
    let mut left = space;
    visit(Archive::new(archive).entries()?, &mut |entry| {
        // The reader that later applies the files keeps the map of a sparse file in memory.
        if entry.header().entry_type().is_gnu_sparse() {
            return Err(refused("the archive of changed files has a sparse file".to_owned()));
        }
        left = left.checked_sub(entry.size()).ok_or_else(full)?;
        Ok(())
    })
}

/// Calls `each` with the entries, also with those that have only a long name or attributes of other entries. Refuses
/// too many entries, which need inodes and directory entries on disk, and names or attributes that are too large,
/// because other readers keep them in memory.
fn visit<R: Read>(
    entries: Entries<'_, R>,
    each: &mut dyn FnMut(&Entry<'_, R>) -> io::Result<()>,
) -> io::Result<()> {
    let mut left = LARGEST_EXTENSIONS;
    for (number, entry) in entries.raw(true).enumerate() {
        let mut entry =
            entry.map_err(|error| refused(format!("the archive cannot be read: {error}")))?;
        if number >= MOST_ENTRIES {
            return Err(refused("the archive has too many entries".to_owned()));
        }
        let (kind, size) = (entry.header().entry_type(), entry.size());
        let is_pax = kind.is_pax_local_extensions() || kind.is_pax_global_extensions();
        if is_pax || kind.is_gnu_longname() || kind.is_gnu_longlink() {
            left =
                left.checked_sub(size).filter(|_| size <= LARGEST_EXTENSION).ok_or_else(|| {
                    refused("the names or attributes in the archive are too large".to_owned())
                })?;
        }
        let mut text = Vec::new();
        if is_pax {
            (&mut entry).take(LARGEST_EXTENSION).read_to_end(&mut text)?;
        }
        // Other readers use the size in a pax header, but this reader uses the size in the header of the entry itself.
        if PaxExtensions::new(&text).any(|it| it.is_ok_and(|it| it.key_bytes() == b"size")) {
            return Err(refused("the archive has a size in a pax header".to_owned()));
        }
        each(&entry)?;
    }
    Ok(())
}

fn is_used(path: &Path) -> bool {
    path.starts_with(IMAGES) || USED.iter().any(|name| path == Path::new(name))
}

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, NO_SPACE)
}

fn refused(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The JSON document that names the image of the container.
pub const CONFIG: &str = "config.dump";
/// The container's `config.json`.
pub const SPEC: &str = "spec.dump";
const USED: [&str; 4] = [CONFIG, SPEC, ROOTFS_DIFF, DELETED_FILES];
/// Maximum size of a JSON document in bytes.
pub const LARGEST_DOCUMENT: u64 = 4 << 20;
/// Largest extension header in bytes. The kernel's limit for an extended attribute is 64 KiB.
const LARGEST_EXTENSION: u64 = 1 << 20;
const LARGEST_EXTENSIONS: u64 = if cfg!(test) { 3 << 20 } else { 256 << 20 };
const MOST_ENTRIES: usize = if cfg!(test) { 1000 } else { 1_000_000 };
const PIECE: u64 = 8 << 20;
const NO_SPACE: &str =
    "the files of the container checkpoint need more space than the restore may use";
/// The first bytes of a gzip file.
pub(in crate::oci_runtime) const GZIP: [u8; 2] = [0x1f, 0x8b];

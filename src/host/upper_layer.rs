//! Reads the upper directory of an overlay: the files that a container has added, changed and deleted.
//!
//! Follows no symbolic link, because containers may change the directory during the read.

use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{
        CWD, Dir, Mode, OFlags, fgetxattr, fgetxattr_query, flistxattr, flistxattr_query, openat,
        readlinkat,
    },
    io::Errno,
};

/// A file, directory or other entry of the upper directory.
#[derive(Debug)]
pub struct LayerEntry<'a> {
    /// The path relative to the layer's root.
    pub path: &'a Path,
    pub metadata: Metadata,
    /// The extended attributes of a file or directory, without the SELinux label and those of overlayfs.
    pub attributes: Vec<(String, Vec<u8>)>,
    pub kind: EntryKind,
}

/// The kind of an entry.
#[derive(Debug)]
pub enum EntryKind {
    /// A directory, opaque if it hides the content of the image's directory of the same name.
    Directory {
        is_opaque: bool,
    },
    File(File),
    Link(PathBuf),
    /// A mark that the container has deleted the image's file or directory of this name.
    Deleted,
}

/// Calls `visit` for each entry. Visits a directory before its content.
///
/// # Errors
/// The layer cannot be read, is too deep or has an entry that a restore could not create again, or `visit` failed.
pub fn walk(
    layer: &Path,
    visit: &mut dyn FnMut(LayerEntry<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let root = openat(CWD, layer, DIRECTORY, Mode::empty())
        .map_err(|error| at(Path::new(""), error.into()))?;
    descend(&root, Path::new(""), 0, visit)
}

fn descend(
    directory: &OwnedFd,
    path: &Path,
    depth: usize,
    visit: &mut dyn FnMut(LayerEntry<'_>) -> io::Result<()>,
) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(refused(path, "is too deep"));
    }
    let listed = Dir::read_from(directory).map_err(|error| at(path, error.into()))?;
    for entry in listed {
        let entry = entry.map_err(|error| at(path, error.into()))?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let below = path.join(name);
        let read = read(directory, name, &below).map_err(|error| at(&below, error));
        let (entry, opened) = read?;
        visit(entry).map_err(|error| at(&below, error))?;
        if let Some(opened) = opened {
            descend(&opened, &below, depth + 1, visit)?;
        }
    }
    Ok(())
}

/// Reads the entry `name` of a directory. If the entry is itself a directory, also opens it.
fn read<'a>(
    directory: &OwnedFd,
    name: &OsStr,
    path: &'a Path,
) -> io::Result<(LayerEntry<'a>, Option<OwnedFd>)> {
    let found = File::from(openat(directory, name, FOUND, Mode::empty())?);
    let metadata = found.metadata()?;
    let kind = metadata.file_type();
    let entry =
        |kind, attributes| LayerEntry { path, metadata: metadata.clone(), attributes, kind };
    if kind.is_symlink() {
        let target = readlinkat(&found, c"", Vec::new())?;
        let target = PathBuf::from(OsStr::from_bytes(target.to_bytes()));
        return Ok((entry(EntryKind::Link(target), Vec::new()), None));
    }
    if kind.is_dir() {
        let opened = openat(directory, name, DIRECTORY, Mode::empty())?;
        same(&metadata, &File::from(opened.try_clone()?))?;
        let Attributes { own: attributes, overlay } = attributes(&opened)?;
        if let Some(moved) = overlay.iter().find(|(name, _)| name == "redirect") {
            let from = String::from_utf8_lossy(&moved.1).into_owned();
            return Err(refused(
                path,
                &format!("is a directory that the container has renamed (in the image: {from})"),
            ));
        }
        let is_opaque = overlay.iter().any(|(name, value)| name == "opaque" && value == b"y");
        return Ok((entry(EntryKind::Directory { is_opaque }, attributes), Some(opened)));
    }
    if kind.is_file() {
        let opened = File::from(openat(directory, name, FILE, Mode::empty())?);
        same(&metadata, &opened)?;
        let Attributes { own: attributes, overlay } = attributes(&opened)?;
        if overlay.iter().any(|(name, _)| name == "metacopy") {
            return Err(refused(
                path,
                "has its content in the image (the overlay's metacopy is on)",
            ));
        }
        return Ok((entry(EntryKind::File(opened), attributes), None));
    }
    if kind.is_char_device() && metadata.rdev() == 0 {
        return Ok((entry(EntryKind::Deleted, Vec::new()), None));
    }
    let what = if kind.is_socket() {
        "is a socket"
    } else if kind.is_fifo() {
        "is a named pipe"
    } else {
        "is a device"
    };
    Err(refused(path, what))
}

#[derive(Default)]
struct Attributes {
    own: Vec<(String, Vec<u8>)>,
    /// The attributes of overlayfs. Their names lack the prefix `trusted.overlay.` or `user.overlay.`.
    overlay: Vec<(String, Vec<u8>)>,
}

fn attributes(of: &impl AsFd) -> io::Result<Attributes> {
    let mut found = Attributes::default();
    for name in attribute_names(of)?.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = String::from_utf8_lossy(name).into_owned();
        let mut value = vec![0; fgetxattr_query(of, name.as_str())?];
        let length = fgetxattr(of, name.as_str(), value.as_mut_slice())?;
        value.truncate(length);
        match name.split_once(".overlay.") {
            Some(("trusted" | "user", of_overlay)) => {
                found.overlay.push((of_overlay.to_owned(), value));
            }
            // The SELinux label is left out, because a restored container gets its own label.
            _ if name == "security.selinux" => {}
            _ => found.own.push((name, value)),
        }
    }
    Ok(found)
}

/// The names of the extended attributes, each followed by a NUL byte; possibly empty.
fn attribute_names(of: &impl AsFd) -> io::Result<Vec<u8>> {
    let length = match flistxattr_query(of) {
        Err(Errno::OPNOTSUPP) => 0,
        length => length?,
    };
    let mut names = vec![0; length];
    let length = flistxattr(of, names.as_mut_slice())?;
    names.truncate(length);
    Ok(names)
}

fn same(before: &Metadata, now: &File) -> io::Result<()> {
    let now = now.metadata()?;
    if (now.dev(), now.ino()) == (before.dev(), before.ino()) {
        return Ok(());
    }
    Err(io::Error::other("the file or directory was replaced during the read"))
}

fn refused(path: &Path, what: &str) -> io::Error {
    let text = format!("/{} {what}", path.display());
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Adds the path to an error, if the error does not have the path already.
fn at(path: &Path, error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::Unsupported {
        return error;
    }
    io::Error::new(error.kind(), format!("/{}: {error}", path.display()))
}

const FOUND: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The greatest depth of directories that is read. The depth is limited because each level needs two descriptors.
const MAX_DEPTH: usize = 400;

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::{fs::symlink, net::UnixListener},
    };

    use super::*;

    fn read_all(layer: &Path) -> io::Result<Vec<String>> {
        let mut seen = Vec::new();
        walk(layer, &mut |entry| {
            let kind = match entry.kind {
                EntryKind::Directory { is_opaque } => format!("directory {is_opaque}"),
                EntryKind::File(file) => format!("file {}", io::read_to_string(file)?),
                EntryKind::Link(target) => format!("link {}", target.display()),
                EntryKind::Deleted => "deleted".to_owned(),
            };
            seen.push(format!("{}: {kind}", entry.path.display()));
            Ok(())
        })?;
        seen.sort();
        Ok(seen)
    }

    #[test]
    fn files_directories_and_links_are_read_without_following_links() {
        let layer = tempfile::tempdir().unwrap();
        fs::create_dir_all(layer.path().join("etc/app")).unwrap();
        fs::write(layer.path().join("etc/app/one"), "1").unwrap();
        symlink("/etc/shadow", layer.path().join("etc/link")).unwrap();
        let wanted = [
            "etc/app/one: file 1",
            "etc/app: directory false",
            "etc/link: link /etc/shadow",
            "etc: directory false",
        ];
        assert_eq!(read_all(layer.path()).unwrap(), wanted);
    }

    #[test]
    fn what_cannot_be_created_again_is_refused_by_its_path() {
        let layer = tempfile::tempdir().unwrap();
        fs::create_dir(layer.path().join("run")).unwrap();
        let _socket = UnixListener::bind(layer.path().join("run/app.sock")).unwrap();
        let error = read_all(layer.path()).unwrap_err();
        assert_eq!(error.to_string(), "/run/app.sock is a socket");
        let gone = read_all(&layer.path().join("nowhere")).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}

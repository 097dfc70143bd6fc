//! Checks the paths in a container checkpoint that CRIU opens as root in a restore.
//!
//! CRIU opens most paths in the container's mounts, where a link in `/proc` would lead to CRIU's program and open
//! files. CRIU recreates deleted files before it changes its root, so a link in their paths could lead to files of the
//! node. CRIU follows links, so the paths must not contain any: `docs/decisions/0048`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use super::{
    config::Config,
    image::Image,
    images::Images,
    messages::{Area, GhostFile, Memory, Mount, OpenFile, Remade},
    mounts::{self, Content},
};
use crate::model::path::parts;

/// A path that must contain no links, once the files of the container checkpoint are in the root file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::oci_runtime) struct Located {
    /// The source of the volume on the node. `None` for the root file system.
    pub(in crate::oci_runtime) volume: Option<String>,
    /// The path relative to the volume's source or the root file system.
    pub(in crate::oci_runtime) path: String,
}

/// The paths of symbolic and hard links in each image of a tmpfs.
#[derive(Clone, Debug, Default)]
pub(super) struct Links(pub(super) BTreeMap<String, BTreeSet<PathBuf>>);

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    mount: Option<u32>,
    /// Whether CRIU recreates this deleted file, or makes a hard link from this file to the path of a deleted one.
    is_made: bool,
    /// Whether CRIU changes the permissions of the file, because it is a terminal.
    is_terminal: bool,
}

impl Images {
    /// Checks the paths of open files, working directories, programs, mapped files, sockets, watches and
    /// mounts. Returns the paths to check once the files of the container checkpoint are in the root file system.
    pub(super) fn check_paths(
        &self,
        mounts: &[Mount],
        config: &Config,
        links: &Links,
    ) -> Result<Vec<Located>, String> {
        let places = Places { mounts, config, links };
        let mut located = Vec::new();
        for mount in mounts.iter().filter(|mount| !parts(&mount.path).is_empty()) {
            // Only the kernel can make links in its file systems, such as `/proc`, so mount points there need no check.
            let above = places.mount_of(parent(&parts(&mount.path)));
            if above.is_some_and(|above| mounts::content(above, config) != Content::Kernel) {
                located.extend(places.locate(
                    &mount.path,
                    parent(&parts(&mount.path)).len(),
                    Use::default(),
                )?);
            }
        }
        let files = self.read::<OpenFile>("files.img")?;
        let (made, linked) = self.made()?;
        let terminals = files.iter().filter_map(|file| file.terminal);
        let terminals: BTreeSet<u32> = terminals.map(|it| it.file.unwrap_or(it.id)).collect();
        for OpenFile { regular, watches, unix_socket, terminal, .. } in &files {
            check_flags(regular.as_ref().map_or(0, |it| it.flags))?;
            check_flags(terminal.map_or(0, |it| it.flags))?;
            if let Some(file) = regular {
                let name = file.path.rsplit('/').next().unwrap_or_default();
                let number = name.strip_prefix("link_remap.").unwrap_or_default();
                if linked.contains(&file.id) && number.parse::<u32>().is_err() {
                    return Err(format!("the restore would remove the file {}", file.path));
                }
                let use_ = Use {
                    mount: file.mount.and_then(|mount| u32::try_from(mount).ok()),
                    is_made: made.contains(&file.id),
                    is_terminal: terminals.contains(&file.id),
                };
                located.extend(places.open(&file.path, use_)?);
            }
            for watch in watches.iter().flat_map(|it| &it.all) {
                let path = watch.handle.as_ref().and_then(|it| it.path.as_deref());
                // Without a path, CRIU opens a watched file by its handle, outside of the container's mounts.
                let path = path.ok_or("the checkpoint has an inotify watch without a path")?;
                located.extend(places.open(path, Use::default())?);
            }
            if let Some(socket) = unix_socket {
                located.extend(places.socket(&socket.name, socket.directory.as_deref())?);
            }
        }
        Ok(located)
    }

    /// Returns two sets of the numbers that CRIU's images give to open files. The first set has the deleted files, and
    /// the files that CRIU hard-links to the paths of deleted files. The second set has only these hard-linked files,
    /// whose own paths CRIU removes afterwards.
    fn made(&self) -> Result<(BTreeSet<u32>, BTreeSet<u32>), String> {
        let (mut made, mut linked) = (BTreeSet::new(), BTreeSet::new());
        if self.contents.contains_key(REMADE) {
            for Remade { file, from, kind } in self.read::<Remade>(REMADE)? {
                made.insert(file);
                match kind {
                    None | Some(LINKED) => {
                        made.insert(from);
                        linked.insert(from);
                    }
                    Some(GHOST) => {}
                    Some(_) => {
                        return Err("the checkpoint has an open file that dockbridge cannot recreate, such as a file in /proc of an ended process".to_owned());
                    }
                }
            }
        }
        for name in self.names("ghost-file-") {
            let bytes = self.contents.get(&name).map(Vec::as_slice).unwrap_or_default();
            let damaged = |reason| format!("CRIU image {name} is damaged: {reason}");
            let GhostFile { mode } = Image::first(bytes).map_err(damaged)?;
            if !RECREATED_TYPES.contains(&(mode & TYPE)) {
                return Err(format!(
                    "the deleted file in CRIU image {name} is not a regular file, directory or \
                     named pipe"
                ));
            }
        }
        Ok((made, linked))
    }

    /// Refuses a mapping of the first pages of memory, which attacks can use, unless the container has
    /// `CAP_SYS_RAWIO`. Also checks the flags of mapped files.
    pub(super) fn check_memory(&self, config: &Config) -> Result<(), String> {
        for name in self.names("mm-") {
            for Area { start, flags } in
                self.read::<Memory>(&name)?.into_iter().flat_map(|it| it.areas)
            {
                if start < LOWEST_ADDRESS && !config.allows("CAP_SYS_RAWIO") {
                    return Err(format!(
                        "the checkpoint has memory at the low address {start:#x}, and the new \
                         container has no CAP_SYS_RAWIO"
                    ));
                }
                check_flags(flags.unwrap_or_default())?;
            }
        }
        Ok(())
    }
}

/// Refuses the flags `O_CREAT`, `O_EXCL` and `O_TRUNC`. The kernel does not keep them for an open file, so no real
/// container checkpoint has these flags.
fn check_flags(flags: u32) -> Result<(), String> {
    match flags & (CREATE | EXCLUSIVE | TRUNCATE) {
        0 => Ok(()),
        _ => Err(
            "the checkpoint has an open or mapped file with flags that would create or truncate it"
                .to_owned(),
        ),
    }
}

struct Places<'a> {
    links: &'a Links,
    mounts: &'a [Mount],
    config: &'a Config,
}

impl Places<'_> {
    fn mount_of(&self, path: &[&str]) -> Option<&Mount> {
        let above = self.mounts.iter().filter(|mount| path.starts_with(&parts(&mount.path)));
        above.max_by_key(|mount| parts(&mount.path).len())
    }

    fn socket(&self, name: &[u8], directory: Option<&str>) -> Result<Vec<Located>, String> {
        // A name that starts with a NUL is an abstract name and not a path.
        let name =
            if name.starts_with(b"\0") { b"" } else { name.strip_suffix(b"\0").unwrap_or(name) };
        let name = str::from_utf8(name).map_err(|_| "the path of a socket is not UTF-8")?;
        if name.is_empty() {
            let directory = directory.map(|path| self.open(path, Use::default())).transpose()?;
            return Ok(directory.flatten().into_iter().collect());
        }
        let path = match directory {
            Some(directory) if !name.starts_with('/') => format!("{directory}/{name}"),
            _ => name.to_owned(),
        };
        let paths = directory.into_iter().chain([path.as_str()]);
        let mut located = Vec::new();
        for path in paths {
            located.extend(self.open(path, Use::default())?);
        }
        Ok(located)
    }

    fn open(&self, path: &str, use_: Use) -> Result<Option<Located>, String> {
        self.locate(path, parts(path).len(), use_)
    }

    fn has_link(&self, mount: &Mount, below: &[&str]) -> bool {
        let images = [
            format!("tmpfs-dev-{}.tar.gz.img", mount.device),
            format!("tmpfs-{}.tar.gz.img", mount.id),
        ];
        let links = images.iter().filter_map(|name| self.links.0.get(name));
        // A tmpfs has one of two possible images: CRIU reads the second if the first does not exist.
        let starts = (0..=below.len()).filter_map(|length| below.get(..length));
        let starts: Vec<PathBuf> = starts.map(|names| names.iter().collect()).collect();
        links.flat_map(|it| starts.iter().filter(|start| it.contains(*start))).next().is_some()
    }

    /// Checks a path. The first `length` parts of `path` determine the mount of the path.
    fn locate(&self, path: &str, length: usize, use_: Use) -> Result<Option<Located>, String> {
        let refused = |what: &str| Err(format!("the file {path} of the checkpoint {what}"));
        let names = parts(path);
        // CRIU would end a path at a NUL.
        let is_exact = !path.contains('\0')
            && path.strip_prefix('/').is_some_and(|rest| rest == names.join("/"));
        if !is_exact {
            return refused("is not a normalized absolute path");
        }
        let above = names.get(..length).unwrap_or_default();
        let Some(mount) = self.mount_of(above) else { return refused("is not on any mount") };
        if use_.mount.is_some_and(|number| number != mount.id) {
            return refused(
                "is not on its mount, for example because another mount hides the file",
            );
        }
        let below = names.get(parts(&mount.path).len()..).unwrap_or_default();
        let content = mounts::content(mount, self.config);
        if use_.is_made && mount.flags & mounts::READ_ONLY != 0 {
            return refused("would have to be recreated, but its mount is read-only");
        }
        // Outside of the root file system, a deleted file must be directly in its mount, or another container
        // could put a link into its path.
        if use_.is_made && content != Content::Root && below.len() != 1 {
            return refused(
                "would have to be recreated, but is not in the top directory of its mount",
            );
        }
        if use_.is_terminal && matches!(content, Content::Root | Content::Volume(_)) {
            return refused(
                "is open as a terminal, but is in the root file system or a bind mount",
            );
        }
        let volume = match content {
            Content::Root => None,
            Content::Volume(source) => Some(source.to_owned()),
            Content::Memory if self.has_link(mount, below) => {
                return refused("has a link in its path");
            }
            Content::Memory | Content::Device => return Ok(None),
            Content::Kernel => return refused("is a file of the kernel, which cannot be restored"),
        };
        Ok(Some(Located { volume, path: below.join("/") }))
    }
}

fn parent<'a, 'b>(path: &'b [&'a str]) -> &'b [&'a str] {
    path.split_last().map_or(path, |(_, parent)| parent)
}

const REMADE: &str = "remap-fpath.img";
const LINKED: u32 = 0;
const GHOST: u32 = 1;
const TYPE: u32 = 0o170_000;
/// Types of deleted files that CRIU may recreate: named pipes, directories and regular files.
const RECREATED_TYPES: [u32; 3] = [0o010_000, 0o040_000, 0o100_000];
const CREATE: u32 = 0o100;
const EXCLUSIVE: u32 = 0o200;
const TRUNCATE: u32 = 0o1000;
/// Lowest address that a process without `CAP_SYS_RAWIO` may map on Debian: its default of `vm.mmap_min_addr`.
const LOWEST_ADDRESS: u64 = 1 << 16;

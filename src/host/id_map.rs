//! Makes mounts that show files with other owners: id-mapped copies of mounts (Linux 5.12). The kernel cannot
//! id-map an overlay itself, so the overlay is mounted again from id-mapped layers (Linux 5.19).
//!
//! Overlayfs accesses its layers with the credentials of the process that mounted it. If the upper directory is
//! id-mapped, the host's root has no id in the mapping and could not write there. So a thread that has the file system
//! ids of the container's root, but keeps its capabilities, mounts the overlay.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    libc::{self, MOUNT_ATTR_IDMAP, MOUNT_ATTR_NODEV, MOUNT_ATTR_RDONLY, mount_attr},
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    unistd::{Gid, Uid, fchdir, setfsgid, setfsuid},
};
use rustix::{
    fs::CWD,
    mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree},
    thread::{CapabilitiesSecureBits, capabilities_secure_bits, set_capabilities_secure_bits},
};

use super::{
    error::{HostError, OrCannot as _},
    file,
    mounts::{MountInfo, mount_of, remove_mount_point, unescaped, unmount_all},
    netns::on_own_thread,
};

/// Mounts `source` at a new `target`; the user namespace `ids` maps the owners of files. Mounts below `source`, also
/// later ones if the mount of `source` is shared, appear below `target` with unmapped owners. Later mounts below
/// `target` do not appear below `source`.
///
/// # Errors
/// The file system cannot map ids (`EINVAL`), `target` exists, or access is denied.
pub fn mount_mapped(source: &Path, target: &Path, ids: BorrowedFd<'_>) -> Result<(), HostError> {
    attach_copy(source, target, Some(ids), 0)
}

/// Mounts as [`mount_mapped`] does, but with `nodev`, which does not affect the mounts below `source`. Without `ids`,
/// owners do not change.
pub fn mount_without_devices(
    source: &Path,
    target: &Path,
    ids: Option<BorrowedFd<'_>>,
) -> Result<(), HostError> {
    attach_copy(source, target, ids, MOUNT_ATTR_NODEV)
}

fn attach_copy(
    source: &Path,
    target: &Path,
    ids: Option<BorrowedFd<'_>>,
    restrictions: u64,
) -> Result<(), HostError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let copy = open_tree(CWD, source, flags).or_cannot("make a bind mount of", source)?;
    if let Some(ids) = ids {
        map(&copy, ids).or_cannot("make an id-mapped mount of", source)?;
    }
    // If the copy were a peer of the source, unmounting the copy would unmount the mounts below the source.
    follow(&copy).or_cannot("change the propagation of a bind mount of", source)?;
    let restrict = mount_attr { attr_set: restrictions, ..NO_CHANGE };
    change(&copy, &restrict, 0).or_cannot("set the flags of a bind mount of", source)?;
    let metadata = copy.try_clone().and_then(|copy| File::from(copy).metadata());
    make_mount_point(target, metadata.or_cannot("read", source)?.is_dir())?;
    attach(&copy, target)
}

/// An overlay as the mount table shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    pub base: PathBuf,
    /// The read-only layers, the topmost first, relative to `base`.
    pub lower: Vec<PathBuf>,
    /// The writable layer, relative to `base`; None if the overlay is read-only.
    pub upper: Option<PathBuf>,
    pub options: Vec<String>,
}

impl Overlay {
    /// The overlay that is mounted at `point`; None if no overlay or only a part of one is mounted there, or
    /// if its layers are not below one directory.
    pub fn at(table: &str, point: &Path) -> Option<Self> {
        let mounts = table.lines().filter_map(MountInfo::read);
        let mount = mounts.rev().find(|mount| mount.point == point)?;
        if mount.root == Path::new("/") { Self::of(&mount) } else { None }
    }

    /// The overlay that contains `path`, and the part of `path` inside the overlay. None if no overlay
    /// contains `path`, if the overlay's layers are not below one directory, or if a writable overlay is mounted
    /// above `path` and not at `path` itself.
    pub fn around(table: &str, path: &Path) -> Option<(Self, PathBuf)> {
        let mount = mount_of(table, path)?;
        let below = path.strip_prefix(&mount.point).ok()?;
        let overlay = Self::of(&mount)?;
        let part = mount.root.strip_prefix("/").ok()?.join(below);
        (below == Path::new("") || overlay.upper.is_none()).then_some((overlay, part))
    }

    /// Layers have the form `<base>/<layer>/<directory>` or `<base>/l/<link>`, or are relative to `<base>`.
    fn of(mount: &MountInfo<'_>) -> Option<Self> {
        if mount.kind != "overlay" {
            return None;
        }
        // Commas of an SELinux context are within quotes.
        let mut is_quoted = false;
        let all = mount.options.split(|c| {
            is_quoted ^= c == '"';
            c == ',' && !is_quoted
        });
        let (mut lower, mut upper, mut options) = (Vec::<PathBuf>::new(), None, Vec::new());
        for option in all {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                "lowerdir" => lower.extend(value.split(':').map(unescaped)),
                "lowerdir+" => lower.push(unescaped(value)),
                "upperdir" => upper = Some(unescaped(value)),
                _ if COPIED_OPTIONS.split(' ').any(|kept| kept == name) => {
                    options.push(option.to_owned());
                }
                _ => {}
            }
        }
        // dockbridge's own overlay of a single layer also has its empty mount point as a layer.
        lower.retain(|layer| *layer != mount.point);
        let above = |path: &Path| Some(path.parent()?.parent()?.to_owned());
        let named = upper.as_deref().or(lower.first().map(PathBuf::as_path))?;
        let base = if named.is_absolute() { above(named)? } else { above(&mount.point)? };
        let relative = |path: PathBuf| match path.is_absolute() {
            true => path.strip_prefix(&base).ok().map(Path::to_owned),
            false => Some(path),
        };
        let lower = lower.into_iter().map(relative).collect::<Option<Vec<_>>>()?;
        let upper = match upper {
            Some(upper) => Some(relative(upper)?),
            None => None,
        };
        Some(Self { base, lower, upper, options })
    }

    /// Mounts as [`Self::mount_mapped`] does, but only the file or directory `part` of the overlay, a path
    /// without links. Also fails if `part` does not exist.
    pub fn mount_part_mapped(
        &self,
        part: &Path,
        target: &Path,
        ids: BorrowedFd<'_>,
        root: (u32, u32),
    ) -> Result<(), HostError> {
        self.mount_mapped(target, ids, root)?;
        if part == Path::new("") {
            return Ok(());
        }
        let place = target.join(part);
        let is_directory = fs::symlink_metadata(&place).or_cannot("look at", &place)?.is_dir();
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
        let copy = open_tree(CWD, &place, flags).or_cannot("make a bind mount of", &place)?;
        unmount(target)?;
        make_mount_point(target, is_directory)?;
        attach(&copy, target)
    }

    /// Creates `target` and mounts the overlay again there, without usable device nodes. `ids` maps the owners of
    /// files. `root` is the host's uid and gid for the container's root user, whose new files belong to root on disk.
    ///
    /// # Errors
    /// The kernel cannot map the layers (before Linux 5.19), `target` exists, a layer's path has a character
    /// that mount options cannot contain, or mounting is not permitted.
    pub fn mount_mapped(
        &self,
        target: &Path,
        ids: BorrowedFd<'_>,
        root: (u32, u32),
    ) -> Result<(), HostError> {
        if let (None, [layer]) = (&self.upper, self.lower.as_slice()) {
            // The kernel refuses a read-only overlay of one layer, so this makes an id-mapped bind mount of the layer.
            // The mount is read-only, because other containers can use the same layer.
            let restrictions = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV;
            return attach_copy(&self.base.join(layer), target, Some(ids), restrictions);
        }
        make_mount_point(target, true)?;
        if let Some(upper) = &self.upper {
            let work = self.base.join(work_of(upper));
            file::make_private_directory(&work)?;
        }
        let mounted = on_own_thread("overlay", || self.mount_apart(target, ids, root));
        let overlay = mounted.or_cannot("mount an overlay on", target)?;
        attach(&overlay, target)
    }

    /// Mounts the overlay at `place` in a new mount namespace, and returns a copy of the mount that is not attached
    /// to a path. Changes the mount namespace, directory and ids of the calling thread.
    fn mount_apart(
        &self,
        place: &Path,
        ids: BorrowedFd<'_>,
        (uid, gid): (u32, u32),
    ) -> io::Result<OwnedFd> {
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let layers = open_tree(CWD, &self.base, flags)?;
        map(&layers, ids)?;
        // Kernels before 6.15 refuse layers on a mount that is not attached in the mount namespace.
        attach(&layers, place).map_err(|e| e.source)?;
        fchdir(&layers)?;
        let bits = capabilities_secure_bits()? | CapabilitiesSecureBits::NO_SETUID_FIXUP;
        set_capabilities_secure_bits(bits)?;
        setfsgid(Gid::from_raw(gid));
        setfsuid(Uid::from_raw(uid));
        // Paths in the options are relative, because all options must fit into one page.
        let options = self.mount_options()?;
        // MS_NODEV: device nodes of an image would belong to the pod's users in this mount.
        mount(Some("overlay"), place, Some("overlay"), MsFlags::MS_NODEV, Some(options.as_str()))?;
        Ok(open_tree(CWD, place, flags)?)
    }

    fn mount_options(&self) -> io::Result<String> {
        let text = |path: &Path| {
            let text = path.to_str().filter(|text| !text.contains([':', ',', '\\']));
            text.map(str::to_owned).ok_or_else(|| {
                io::Error::other(
                    "the path of an overlay layer has a colon, comma or backslash, or is not UTF-8",
                )
            })
        };
        let lower = self.lower.iter().map(|layer| text(layer)).collect::<io::Result<Vec<_>>>()?;
        let mut options = vec![format!("lowerdir={}", lower.join(":"))];
        if let Some(upper) = &self.upper {
            options.push(format!("upperdir={}", text(upper)?));
            options.push(format!("workdir={}", text(&work_of(upper))?));
        }
        // With `index=on`, the kernel would refuse an upper directory that the engine's mount already uses.
        options.push("index=off".to_owned());
        options.extend(self.options.iter().cloned());
        Ok(options.join(","))
    }
}

/// Unmounts a mount that a function of this module has made at `at`, and removes the mount point. Also
/// succeeds if nothing is mounted there. Fails if the mount point is a directory with files.
pub fn unmount(at: &Path) -> Result<(), HostError> {
    unmount_all(at).or_cannot("unmount", at)?;
    remove_mount_point(at)
}

fn make_mount_point(at: &Path, is_directory: bool) -> Result<(), HostError> {
    let made = if is_directory {
        DirBuilder::new().mode(0o700).create(at)
    } else {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(at).map(drop)
    };
    made.or_cannot("create mount point", at)
}

fn attach(mount: &OwnedFd, at: &Path) -> Result<(), HostError> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(mount, "", CWD, at, flags).or_cannot("mount on", at)
}

fn map(mount: &OwnedFd, ids: BorrowedFd<'_>) -> io::Result<()> {
    let userns_fd = u64::from(ids.as_raw_fd().cast_unsigned());
    let attributes = mount_attr { attr_set: MOUNT_ATTR_IDMAP, userns_fd, ..NO_CHANGE };
    change(mount, &attributes, 0)
}

/// Makes a copied mount, and the mounts below it, receive later mounts and unmounts of the original, if the
/// original is shared.
fn follow(copy: &OwnedFd) -> io::Result<()> {
    let attributes = mount_attr { propagation: MsFlags::MS_SLAVE.bits(), ..NO_CHANGE };
    change(copy, &attributes, libc::AT_RECURSIVE)
}

#[allow(unsafe_code, reason = "neither libc nor rustix has a function mount_setattr")]
fn change(mount: &OwnedFd, attributes: &mount_attr, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: the path is a static C string, and the kernel reads only `size_of::<mount_attr>()` bytes of the
    // attributes.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            std::ptr::from_ref(attributes),
            size_of::<mount_attr>(),
        )
    };
    Errno::result(done).map(drop).map_err(Into::into)
}

/// The overlay's work directory, in the same mount as the upper directory, as the kernel requires. The kernel empties a
/// work directory, so the overlay does not use the engine's. The engine removes `dockbridge-work` with the layer.
fn work_of(upper: &Path) -> PathBuf {
    upper.with_file_name("dockbridge-work")
}

const NO_CHANGE: mount_attr = mount_attr { attr_set: 0, attr_clr: 0, propagation: 0, userns_fd: 0 };
/// Options that dockbridge's mount copies from the engine's mount. dockbridge sets the options of the directories
/// and `index` itself. All other options of overlayfs keep their default.
const COPIED_OPTIONS: &str =
    "redirect_dir metacopy userxattr volatile xino context fscontext defcontext rootcontext";

#[cfg(test)]
mod tests;

//! Checks that the mounts of a container checkpoint are the new container's: CRIU does not follow the `config.json`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    config::{self, Config},
    messages::{FileSystem, Mount},
};
use crate::model::path::parts;

/// Fails if the mounts of the container checkpoint and the new container differ, if the checkpoint lacks a restriction
/// of the new container's mount, or if a mount is not safe to restore. `exists` tells which paths the kernel has.
pub(super) fn check(
    mounts: &[Mount],
    config: &Config,
    exists: &dyn Fn(&str) -> bool,
) -> Result<(), String> {
    // CRIU does not support recursively read-only mounts.
    if let Some(recursive) = config.mounts.iter().find(|it| it.has("rro")) {
        let path = &recursive.destination;
        return Err(format!("a recursively read-only mount cannot be restored: {path}"));
    }
    if mounts.len() > MOST_MOUNTS {
        return Err("the checkpoint has too many mounts".to_owned());
    }
    let (mut by_path, mut ids) = (BTreeMap::new(), BTreeSet::new());
    for mount in mounts {
        // CRIU would end a path at a NUL.
        if mount.path.contains('\0') || mount.root.contains('\0') {
            return Err("the checkpoint has a mount with a NUL in its path or root".to_owned());
        }
        check_flags(mount, config)?;
        // CRIU uses the path and root of a mount as parts of paths on the node, so they must not contain `..`.
        if [&mount.path, &mount.root].iter().any(|path| path.split('/').any(|part| part == "..")) {
            return Err(format!("the mount at {} has .. in its path or root", mount.path));
        }
        // If two mounts had the same id, CRIU would use the first of them as parent of other mounts.
        if !ids.insert(mount.id) {
            return Err(format!("another mount has the same id as the mount at {}", mount.path));
        }
        if by_path.insert(parts(&mount.path), mount).is_some() {
            return Err(format!("the checkpoint has two mounts at {}", mount.path));
        }
    }
    for (path, mount) in &by_path {
        // The parent must be the mount above this path, or a mount that CRIU makes later could hide this mount.
        let above = (0..path.len()).rev().find_map(|length| by_path.get(path.get(..length)?));
        if above.is_some_and(|above| above.id != mount.parent) {
            return Err(format!("the mount at {} has the wrong parent mount", mount.path));
        }
        if mount.by_plugin == Some(true) || mount.is_outside == Some(true) {
            return Err(format!("the checkpoint has an unsupported mount at {}", mount.path));
        }
        // Without file system flags, CRIU would use some flags of the mount, such as read-only, for the file system.
        if mount.file_system_flags.is_none() {
            return Err(format!("the mount at {} has no file system flags", mount.path));
        }
        // A part of the mount above may be mounted again at its own path, such as `/proc/sys`.
        let below = path.get(above.map_or(0, |it| parts(&it.path).len())..).unwrap_or_default();
        let is_whole = mount.root == "/" || parts(&mount.root) == below;
        // A tmpfs must be mounted as a whole, because CRIU unpacks its content into the mounted directory.
        let is_whole = is_whole && (mount.kind != TMPFS || mount.root == "/");
        if mount.outside.is_none() && !path.is_empty() && !is_whole {
            return Err(format!(
                "the mount at {} is only a part of a file system: {}",
                mount.path, mount.root
            ));
        }
        check_mount(mount, path, config)?;
    }
    check_devices(mounts, config)?;
    let wanted = config.mounts.iter().map(|mount| &mount.destination);
    let linux = &config.linux;
    let hidden = linux.masked_paths.iter().chain(&linux.readonly_paths).filter(|path| exists(path));
    match wanted.chain(hidden).find(|path| !by_path.contains_key(&parts(path))) {
        Some(path) => Err(format!("only the new container has a mount at {path}")),
        None => Ok(()),
    }
}

/// Source and options of the new container's file systems, by the device number of the file system in the container
/// checkpoint. CRIU requires that mounts with the same device number have the same source and options.
pub(super) fn file_systems(mounts: &[Mount], config: &Config) -> BTreeMap<u32, FileSystem> {
    let inside = mounts.iter().filter(|it| it.outside.is_none() && !parts(&it.path).is_empty());
    let own = inside.filter_map(|mount| {
        let is_at = |it: &String| parts(it) == parts(&mount.path);
        let is_masked = config.linux.masked_paths.iter().any(is_at);
        let planned = config.mounts.iter().find(|it| is_at(&it.destination));
        let (source, mut options) = match planned {
            _ if is_masked => ("tmpfs", Vec::new()),
            Some(it) if it.kind == "cgroup" && mount.kind == TMPFS => ("tmpfs", vec!["mode=755"]),
            Some(it) if it.kind != "cgroup" => (it.source.as_str(), it.file_system_options()),
            _ => return None,
        };
        let label = format!("context=\"{}\"", config.linux.mount_label);
        if !config.linux.mount_label.is_empty() && [TMPFS, TERMINALS].contains(&mount.kind) {
            options.push(&label);
        }
        Some((mount.device, FileSystem { source: source.to_owned(), options: options.join(",") }))
    });
    own.collect()
}

/// What a mount of the container checkpoint contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    Root,
    /// The mount is a volume, or another bind mount, with this source.
    Volume(&'a str),
    /// The mount is a tmpfs or has terminals, which belong only to the container.
    Memory,
    /// The mount is a device of the container, or `/dev/null`, which hides a file.
    Device,
    /// The mount has files of the kernel, such as `/proc`, or hides a directory.
    Kernel,
}

/// The mount must have passed [`check`].
pub(super) fn content<'a>(mount: &Mount, config: &'a Config) -> Content<'a> {
    let path = parts(&mount.path);
    let is_at = |it: &String| parts(it) == path;
    let is_masked = config.linux.masked_paths.iter().any(is_at);
    let planned = config.mounts.iter().find(|it| is_at(&it.destination) && !is_masked);
    match (&mount.outside, planned) {
        (None, _) if path.is_empty() => Content::Root,
        (Some(_), Some(it)) if it.is_bind() => Content::Volume(&it.source),
        (Some(_), None) if is_masked || config.linux.devices.iter().any(|it| is_at(&it.path)) => {
            Content::Device
        }
        (None, Some(_)) if [TMPFS, TERMINALS].contains(&mount.kind) => Content::Memory,
        _ => Content::Kernel,
    }
}

/// CRIU mounts a file system once, and makes bind mounts of it for other mounts with the same device number. Checks
/// that the container's own mounts do not share a device number with the root, with an external mount or with a mount
/// of another type, and that no two of them are the same tmpfs. Mounts that hide paths are excepted.
fn check_devices(mounts: &[Mount], config: &Config) -> Result<(), String> {
    let is_masked =
        |it: &Mount| config.linux.masked_paths.iter().any(|path| parts(path) == parts(&it.path));
    let is_inside = |it: &&Mount| it.outside.is_none() && !parts(&it.path).is_empty();
    // runc hides files with the container's own `/dev/null`.
    let is_masking = |it: &Mount| it.outside.as_deref() == Some("/dev/null");
    for mount in mounts.iter().filter(is_inside) {
        let is_other = |it: &&Mount| {
            it.device == mount.device
                && it.id != mount.id
                && (!is_inside(it) || it.kind != mount.kind || it.kind == TMPFS)
                && !(is_masked(it) && is_masked(mount))
                && !is_masking(it)
        };
        if let Some(other) = mounts.iter().find(is_other) {
            return Err(format!(
                "the mounts {} and {} of the checkpoint share a file system",
                mount.path, other.path
            ));
        }
    }
    Ok(())
}

/// Checks the flags, the propagation and the cgroup options of a mount, and that its root was not deleted. CRIU passes
/// the flags to the kernel, so they could change the node.
fn check_flags(mount: &Mount, config: &Config) -> Result<(), String> {
    let of_file_system = mount.file_system_flags.unwrap_or_default();
    if mount.flags & !MOUNT_FLAGS != 0 || of_file_system & !FILE_SYSTEM_FLAGS != 0 {
        return Err(format!("the mount at {} has flags that are not allowed", mount.path));
    }
    if mount.is_deleted == Some(true) {
        return Err(format!("the mount at {} shows a deleted file or directory", mount.path));
    }
    // A mount that is not external, such as the root, may have the propagation of any mount of the new container.
    let is_external = mount.outside.is_some();
    let is_at = |it: &&config::Mount| parts(&it.destination) == parts(&mount.path);
    let mut planned = config.mounts.iter().filter(|it| !is_external || is_at(it));
    let given = |number: Option<u32>| number.unwrap_or_default() != 0;
    let is_shared = |it: &config::Mount| it.has("shared") || it.has("rshared");
    let is_slave = |it: &config::Mount| it.has("slave") || it.has("rslave") || is_shared(it);
    if given(mount.shared) && !planned.clone().any(is_shared)
        || given(mount.master) && !planned.any(is_slave)
    {
        return Err(format!(
            "the mount at {} has a propagation that the new container does not have",
            mount.path
        ));
    }
    // All mounts of cgroup v2 are the same file system, and their options change it for the whole machine.
    let options = mount.options.iter().flat_map(|it| it.split(','));
    let is_known = |it: &str| it.is_empty() || CGROUP_OPTIONS.contains(&it);
    if mount.kind == CGROUPS && !is_external && !options.into_iter().all(is_known) {
        return Err(format!(
            "the cgroup mount at {} has an option that is not allowed",
            mount.path
        ));
    }
    Ok(())
}

fn check_mount(mount: &Mount, path: &[&str], config: &Config) -> Result<(), String> {
    let is_at = |it: &String| parts(it) == path;
    let linux = &config.linux;
    let is_masked = linux.masked_paths.iter().any(is_at);
    let is_read_only = !is_masked && linux.readonly_paths.iter().any(is_at);
    let unknown = || {
        Err(format!("the new container has no mount like the checkpoint's mount at {}", mount.path))
    };
    let planned = config.mounts.iter().find(|it| is_at(&it.destination));
    let cgroups = config.mounts.iter().find(|it| {
        it.kind == "cgroup" && path.starts_with(&parts(&it.destination)) && !is_at(&it.destination)
    });
    let mut needed = 0;
    match (&mount.outside, planned.or(cgroups)) {
        // The lower runtime tells CRIU the sources of external mounts: those of the new container.
        (Some(source), _) if is_masked && source == "/dev/null" => {}
        (None, _) if is_masked && mount.kind == TMPFS => needed = READ_ONLY,
        _ if is_masked => return unknown(),
        (Some(source), Some(it))
            if (it.is_bind() || cgroups.is_some()) && parts(source) == path =>
        {
            needed = flags(it);
        }
        (Some(source), None)
            if linux.devices.iter().any(|it| is_at(&it.path) && it.path == *source) => {}
        (None, _) if path.is_empty() => {
            needed = if config.root.readonly { READ_ONLY } else { 0 };
        }
        // Without a cgroup namespace, the mount would show the cgroups of the node.
        (None, Some(_)) if mount.kind == CGROUPS && !config.has_namespace("cgroup") => {
            return unknown();
        }
        (None, Some(it)) if !it.is_bind() && kinds(&it.kind).contains(&mount.kind) => {
            // With cgroup v1, only some OCI runtimes make the tmpfs at `/sys/fs/cgroup` read-only.
            let is_tmpfs_of_cgroups = it.kind == "cgroup" && mount.kind == TMPFS;
            needed = if is_tmpfs_of_cgroups { flags(it) & !READ_ONLY } else { flags(it) };
        }
        (None, None) if is_read_only && [1, 2].contains(&mount.kind) => {}
        _ => return unknown(),
    }
    if is_read_only {
        needed |= READ_ONLY;
    }
    if mount.flags & needed != needed {
        return Err(format!(
            "in the checkpoint, the mount at {} lacks options that it has in the new container",
            mount.path
        ));
    }
    Ok(())
}

fn flags(mount: &config::Mount) -> u32 {
    let named = [("ro", READ_ONLY), ("nosuid", 2), ("nodev", 4), ("noexec", 8)];
    named.iter().filter(|(name, _)| mount.has(name)).fold(0, |all, (_, flag)| all | flag)
}

fn kinds(kind: &str) -> &'static [u32] {
    match kind {
        "proc" => &[1],
        "sysfs" => &[2],
        "tmpfs" => &[TMPFS],
        "devpts" => &[TERMINALS],
        "mqueue" => &[14],
        // With cgroup v1, a mount of type `cgroup` is a tmpfs, in which the OCI runtime mounts the controllers.
        "cgroup" => &[TMPFS, CGROUPS],
        _ => &[],
    }
}

const MOST_MOUNTS: usize = 1_000;
pub(super) const READ_ONLY: u32 = 1;
const TMPFS: u32 = 5;
const TERMINALS: u32 = 6;
/// CRIU's number for the file system type cgroup v2.
const CGROUPS: u32 = 23;
const CGROUP_OPTIONS: [&str; 6] = [
    "nsdelegate",
    "favordynmods",
    "memory_localevents",
    "memory_recursiveprot",
    "memory_hugetlb_accounting",
    "pids_localevents",
];
/// Flags that a mount may have: `ro`, `nosuid`, `nodev`, `noexec`, flags of access times and of propagation.
const MOUNT_FLAGS: u32 = 0xf | 0x400 | 0x800 | 1 << 21 | 1 << 24 | 0xf << 17;
/// Flags that a file system may have: `ro`, `sync` in both of CRIU's forms, `mand` and `dirsync`.
const FILE_SYSTEM_FLAGS: u32 = READ_ONLY | 4 | 16 | 64 | 128;

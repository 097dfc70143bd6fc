//! Whether the mounts of a checkpoint are those of the new container. CRIU makes them from the images, not from
//! the `config.json`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    config::{self, Config},
    messages::Mount,
};
use crate::model::path::parts;

/// Fails with the first mount that the new container does not have, or that the checkpoint lacks. `exists` tells which
/// paths of `/proc` and `/sys` this kernel has.
pub(super) fn check(
    mounts: &[Mount],
    config: &Config,
    exists: &dyn Fn(&str) -> bool,
) -> Result<(), String> {
    // CRIU knows no such mounts.
    if let Some(recursive) = config.mounts.iter().find(|it| it.has("rro")) {
        let path = &recursive.destination;
        return Err(format!("a recursively read-only mount cannot be restored: {path}"));
    }
    let (mut by_path, mut ids) = (BTreeMap::new(), BTreeSet::new());
    for mount in mounts {
        // CRIU uses both as a part of a path on the node.
        if [&mount.path, &mount.root].iter().any(|path| path.split('/').any(|part| part == "..")) {
            return Err(format!("its mount at {} leaves the container", mount.path));
        }
        // CRIU takes the first of them for the parent of others.
        if !ids.insert(mount.id) {
            return Err(format!("its mount at {} has the number of another one", mount.path));
        }
        if by_path.insert(parts(&mount.path), mount).is_some() {
            return Err(format!("it has two mounts at {}", mount.path));
        }
    }
    for (path, mount) in &by_path {
        // Otherwise a mount could be hidden below its own parent.
        let above = (0..path.len()).rev().find_map(|length| by_path.get(path.get(..length)?));
        if above.is_some_and(|above| above.id != mount.parent) {
            return Err(format!("its mount {} is not below the one that contains it", mount.path));
        }
        if mount.by_plugin == Some(true) || mount.is_outside == Some(true) {
            return Err(format!("it has a mount of an unknown kind at {}", mount.path));
        }
        // CRIU would then take most flags of the mount, such as read-only, for those of the file system.
        if mount.file_system_flags.is_none() {
            return Err(format!("its mount at {} has no flags of a file system", mount.path));
        }
        // A part of the mount above it, such as `/proc/sys`, is mounted there again.
        let below = path.get(above.map_or(0, |it| parts(&it.path).len())..).unwrap_or_default();
        let is_whole = mount.root == "/" || parts(&mount.root) == below;
        if mount.outside.is_none() && !path.is_empty() && !is_whole {
            return Err(format!("its mount at {} has {}", mount.path, mount.root));
        }
        check_mount(mount, path, config)?;
    }
    check_devices(mounts)?;
    let wanted = config.mounts.iter().map(|mount| &mount.destination);
    let linux = &config.linux;
    let hidden = linux.masked_paths.iter().chain(&linux.readonly_paths).filter(|path| exists(path));
    match wanted.chain(hidden).find(|path| !by_path.contains_key(&parts(path))) {
        Some(path) => Err(format!("it has no mount at {path}, and the new container has one")),
        None => Ok(()),
    }
}

/// Whose files a mount has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// The root file system.
    Root,
    /// A volume, with its source.
    Volume(&'a str),
    /// A tmpfs or terminals, which are the container's own.
    Memory,
    /// A device of the container, or one that hides a file.
    Device,
    /// Files of the kernel.
    Kernel,
}

/// Whose files an accepted mount has.
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

/// CRIU mounts a file system once, and binds it for its other mounts. A file system of the container must not become
/// one of the node or the root.
fn check_devices(mounts: &[Mount]) -> Result<(), String> {
    let is_inside = |it: &&Mount| it.outside.is_none() && !parts(&it.path).is_empty();
    // runc hides files with the container's own device.
    let is_masking = |it: &Mount| it.outside.as_deref() == Some("/dev/null");
    for mount in mounts.iter().filter(is_inside) {
        let is_other = |it: &&Mount| {
            it.device == mount.device
                && (!is_inside(it) || it.kind != mount.kind)
                && !is_masking(it)
        };
        if let Some(other) = mounts.iter().find(is_other) {
            return Err(format!("its mount at {} is that at {}", mount.path, other.path));
        }
    }
    Ok(())
}

fn check_mount(mount: &Mount, path: &[&str], config: &Config) -> Result<(), String> {
    let is_at = |it: &String| parts(it) == path;
    let linux = &config.linux;
    let is_masked = linux.masked_paths.iter().any(is_at);
    let is_read_only = !is_masked && linux.readonly_paths.iter().any(is_at);
    let unknown =
        || Err(format!("it has a mount at {}, which the new container does not have", mount.path));
    let planned = config.mounts.iter().find(|it| is_at(&it.destination));
    let cgroups = config.mounts.iter().find(|it| {
        it.kind == "cgroup" && path.starts_with(&parts(&it.destination)) && !is_at(&it.destination)
    });
    let mut needed = 0;
    match (&mount.outside, planned.or(cgroups)) {
        // CRIU only knows sources that the runtime names: those of the new container.
        (Some(source), _) if is_masked && source == "/dev/null" => {}
        (None, _) if is_masked && mount.kind == TMPFS => needed = READ_ONLY,
        _ if is_masked => return unknown(),
        (Some(source), Some(it))
            if (it.is_bind() || cgroups.is_some()) && parts(source) == path =>
        {
            needed = flags(it);
            if mount.shared.unwrap_or_default() != 0 && !it.has("shared") && !it.has("rshared") {
                return Err(format!("its mount at {} propagates to the node", mount.path));
            }
        }
        (Some(source), None)
            if linux.devices.iter().any(|it| is_at(&it.path) && it.path == *source) => {}
        (None, _) if path.is_empty() => {
            needed = if config.root.readonly { READ_ONLY } else { 0 };
        }
        // Without the namespace, it would have the cgroups of the node.
        (None, Some(_)) if mount.kind == CGROUP && !config.has_namespace("cgroup") => {
            return unknown();
        }
        (None, Some(it)) if !it.is_bind() && kinds(&it.kind).contains(&mount.kind) => {
            // The tmpfs with the cgroups of version 1 is only made read-only by some runtimes.
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
        return Err(format!("its mount at {} lacks options of the new container", mount.path));
    }
    Ok(())
}

/// The kernel's flags of a mount that make it safer.
fn flags(mount: &config::Mount) -> u32 {
    let named = [("ro", READ_ONLY), ("nosuid", 2), ("nodev", 4), ("noexec", 8)];
    named.iter().filter(|(name, _)| mount.has(name)).fold(0, |all, (_, flag)| all | flag)
}

/// CRIU's numbers for a type of mount.
fn kinds(kind: &str) -> &'static [u32] {
    match kind {
        "proc" => &[1],
        "sysfs" => &[2],
        "tmpfs" => &[TMPFS],
        "devpts" => &[TERMINALS],
        "mqueue" => &[14],
        // With version 1, a tmpfs with a mount for each controller.
        "cgroup" => &[TMPFS, CGROUP, 23],
        _ => &[],
    }
}

pub(super) const READ_ONLY: u32 = 1;
const TMPFS: u32 = 5;
const TERMINALS: u32 = 6;
/// A controller of version 1.
const CGROUP: u32 = 12;

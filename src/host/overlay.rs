//! Mounts the layers of an image as a read-only overlay. If possible, the kernel receives the paths of the layers, so
//! that the mount table shows them: for a pod with a user namespace, dockbridge reads them there and mounts the layers
//! again. If the paths are too long or contain option separators, the kernel receives file descriptors instead.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use nix::{
    libc,
    mount::{MsFlags, mount},
    sys::stat::{major, minor},
};

use super::{
    capability::listening_pid,
    error::{HostError, OrCannot as _},
    file,
    mounts::{MountInfo, remove_mount_point, unmount_all},
};

/// Mounts `layers`, the topmost first, as one read-only directory at `at`. Creates `at` and missing parents
/// with a mode that lets only root enter them, because files of an image may have set-user-ID bits.
///
/// # Errors
/// A layer is missing, or the mount is not supported or not permitted.
pub fn mount_layers(layers: &[PathBuf], at: &Path) -> Result<(), HostError> {
    file::ensure_directory(at, 0o700)?;
    let mut held = Vec::new();
    for layer in layers {
        held.push(directory(layer).or_cannot("open layer", layer)?);
    }
    if held.len() == 1 {
        // The kernel needs two layers, so the empty mount point is the second one.
        held.push(directory(at).or_cannot("open", at)?);
    }
    let options = by_path(layers, at).unwrap_or_else(|| by_descriptor(&held));
    let shown =
        mount(Some("dockbridge"), at, Some("overlay"), MsFlags::MS_RDONLY, Some(options.as_str()));
    shown.or_cannot("mount an overlay on", at)
}

fn by_path(layers: &[PathBuf], at: &Path) -> Option<String> {
    let mut named = Vec::new();
    let alone = (layers.len() == 1).then_some(at);
    for path in layers.iter().map(PathBuf::as_path).chain(alone) {
        named.push(path.to_str().filter(|path| !path.contains([':', ',', '\\']))?);
    }
    Some(format!("lowerdir={}", named.join(":"))).filter(|options| options.len() < LONGEST_OPTIONS)
}

fn by_descriptor(held: &[File]) -> String {
    let named: Vec<_> = held.iter().map(|d| format!("/proc/self/fd/{}", d.as_raw_fd())).collect();
    format!("lowerdir={}", named.join(":"))
}

/// Unmounts `at` and removes the empty directory, if any. A container that already has the mount keeps it.
pub fn unmount(at: &Path) -> Result<(), HostError> {
    if is_mounted(at) {
        unmount_all(at).or_cannot("unmount", at)?;
    }
    remove_mount_point(at)
}

/// Whether another file system is mounted at `at`.
pub fn is_mounted(at: &Path) -> bool {
    let device = |path: &Path| fs::symlink_metadata(path).ok().map(|facts| facts.dev());
    let above = at.parent().and_then(device);
    device(at).is_some_and(|own| above.is_some_and(|above| above != own))
}

/// Whether the mount at `at` is visible to the process that listens on `socket`, which may have another mount
/// namespace. False if the process cannot be found.
pub fn is_visible_to(socket: &Path, at: &Path) -> bool {
    let Some(pid) = listening_pid(socket) else { return false };
    let Ok(facts) = fs::symlink_metadata(at) else { return false };
    let device = format!("{}:{}", major(facts.dev()), minor(facts.dev()));
    let Ok(table) = fs::read_to_string(format!("/proc/{pid}/mountinfo")) else { return false };
    let mut mounts = table.lines().filter_map(MountInfo::read);
    mounts.any(|mount| mount.device == device && mount.point == at)
}

fn directory(path: &Path) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// The size limit of the mount options in bytes: less than a page, because the kernel adds options.
const LONGEST_OPTIONS: usize = 4000;

#[cfg(test)]
mod tests;

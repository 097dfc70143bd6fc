//! Where a container's writable layer is: the upper directory of the overlay on its root.

use std::path::{Path, PathBuf};

use crate::host::mounts::{MountInfo, unescaped};

/// The upper directory in `/proc/<pid>/mountinfo`; none where the root is no overlay. It may be
/// relative: engines shorten the options of many layers and mount from their own directory.
pub(in crate::stats) fn directory(mountinfo: &str) -> Option<PathBuf> {
    // Whatever was mounted last is on top.
    let mut mounts = mountinfo.lines().rev().filter_map(MountInfo::read);
    let root = mounts.find(|mount| mount.point == Path::new("/"))?;
    if root.kind != "overlay" {
        return None;
    }
    let upper = root.options.split(',').find_map(|option| option.strip_prefix("upperdir="))?;
    Some(unescaped(upper))
}

/// [`directory`], a relative one below the first of `homes` that has it.
pub(in crate::stats) fn resolved(mountinfo: &str, homes: &[PathBuf]) -> Option<PathBuf> {
    let upper = directory(mountinfo)?;
    let mut candidates = homes.iter().map(|home| home.join(&upper));
    match upper.is_absolute() {
        true => Some(upper).filter(|upper| Path::is_dir(upper)),
        false => candidates.find(|candidate| candidate.is_dir()),
    }
}

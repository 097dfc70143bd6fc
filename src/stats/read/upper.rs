//! Where writable layers are that the engine does not name: those of containerd's snapshotters.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use crate::host::mounts::{MountInfo, unescaped};

/// The upper directories of the overlays that are mounted below the engine's `root_dir`, by the name of
/// their mount point. The engine mounts a container's root under the container's id.
///
/// `mountinfo` has to be the host's: a container can mount what it likes in its own namespace.
pub(in crate::stats) fn directories(mountinfo: &str, root_dir: &Path) -> HashMap<String, PathBuf> {
    let mut found = HashMap::new();
    // Most lines of a long table are something else; this is found without parsing the line.
    let overlays = mountinfo.lines().filter(|line| line.contains(" - overlay "));
    for mount in overlays.filter_map(MountInfo::read) {
        let name = mount.point.file_name().and_then(|name| name.to_str());
        let upper = mount.options.split(',').find_map(|option| option.strip_prefix("upperdir="));
        let upper = upper.map(unescaped).filter(|upper| upper.is_absolute());
        if let (Some(name), Some(upper), true) = (name, upper, mount.point.starts_with(root_dir)) {
            // The engine's own mount is the first.
            found.entry(name.to_owned()).or_insert(upper);
        }
    }
    found
}

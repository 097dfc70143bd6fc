//! A device node. The engine makes nodes like the host's, with their type, numbers, owner and
//! mode: what a specification states besides has to be what the host has.

use std::path::{Path, PathBuf};

use super::{error::Obstacle, specification::Node};
use crate::{
    host::node::{HostNode, NodeType, look},
    model::container::Device,
};

/// The node in the words of the CRI.
pub(super) fn device(wanted: &Node) -> Result<Device, Obstacle> {
    let host_path = if wanted.host_path.is_empty() { &wanted.path } else { &wanted.host_path };
    for path in [&wanted.path, host_path] {
        if !path.starts_with('/') {
            return Err(Obstacle::Relative { path: path.clone() });
        }
    }
    let place = Path::new(host_path);
    let found = look(place)?.ok_or_else(|| Obstacle::NoDevice { path: place.to_owned() })?;
    compare(wanted, place, found)?;
    Ok(Device {
        container_path: wanted.path.clone(),
        host_path: host_path.clone(),
        permissions: permissions(wanted)?,
    })
}

fn compare(wanted: &Node, place: &Path, found: HostNode) -> Result<(), Obstacle> {
    let differs = |property, wanted: String, found: String| {
        let path: PathBuf = place.to_owned();
        Err(Obstacle::Differs { path, property, wanted, found })
    };
    let kind = match found.kind {
        NodeType::Block => "b",
        NodeType::Character => "c",
    };
    // An unbuffered character device is a character device.
    let stated = if wanted.kind == "u" { "c" } else { wanted.kind.as_str() };
    if !stated.is_empty() && stated != kind {
        return differs("type", wanted.kind.clone(), kind.to_owned());
    }
    if wanted.major != 0 && (wanted.major, wanted.minor) != (found.major, found.minor) {
        let numbers = |major, minor| format!("{major}:{minor}");
        let (wanted, found) =
            (numbers(wanted.major, wanted.minor), numbers(found.major, found.minor));
        return differs("numbers", wanted, found);
    }
    for (property, wanted, found) in
        [("uid", wanted.uid, found.uid), ("gid", wanted.gid, found.gid)]
    {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            return differs(property, wanted.to_string(), found.to_string());
        }
    }
    match wanted.file_mode.map(|mode| mode & PERMISSION_BITS) {
        Some(mode) if mode != found.mode => {
            differs("file mode", format!("{mode:04o}"), format!("{:04o}", found.mode))
        }
        _ => Ok(()),
    }
}

fn permissions(wanted: &Node) -> Result<String, Obstacle> {
    let stated = &wanted.permissions;
    if stated.len() > 3 || !stated.bytes().all(|byte| matches!(byte, b'r' | b'w' | b'm')) {
        let (path, permissions) = (wanted.path.clone(), stated.clone());
        return Err(Obstacle::Permissions { path, permissions });
    }
    Ok(if stated.is_empty() { "rwm".to_owned() } else { stated.clone() })
}

/// The rest of a mode says what kind of file it is.
const PERMISSION_BITS: u32 = 0o7777;

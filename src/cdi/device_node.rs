//! A device node. Without dockbridge's OCI runtime, the engine copies the host's node, and the type, numbers, owner and
//! mode that a CDI specification states must match those of the host's node.

use std::path::Path;

use serde_json::json;

use super::specification::Node;
use crate::{
    error::chain,
    host::device_node::{self, DeviceNode},
    model::spec_edit::{OF_PROCESS, SpecEdit, without_empty},
};

/// If the specification does not state the type, the numbers or the mode, they are taken from the host's node, but not
/// for a pipe that dockbridge's OCI runtime makes. With dockbridge's OCI runtime, an owner that the specification does
/// not state is the container's user.
pub(super) fn edit(requested: &Node, without_oci_runtime: bool) -> Result<SpecEdit, String> {
    let host_path = host_path(requested)?;
    let path = Path::new(host_path);
    let is_pipe = requested.kind == "p" && !without_oci_runtime;
    let is_stated = is_pipe || (!requested.kind.is_empty() && requested.major != 0);
    let found = match device_node::read(path) {
        Ok(found) => found.filter(|_| !is_pipe),
        Err(_) if is_stated && !without_oci_runtime => None,
        Err(error) => return Err(chain(&error)),
    };
    match found {
        Some(found) if without_oci_runtime => compare(requested, path, found)?,
        None if without_oci_runtime || !is_stated => {
            return Err(format!("{} is not a device", path.display()));
        }
        _ => {}
    }
    let (major, minor) = match (requested.major, found) {
        (0, Some(found)) => (found.major, found.minor),
        (major, _) => (major, requested.minor),
    };
    let kind = match requested.kind.as_str() {
        "" => found.map_or("c", |found| found.kind),
        requested => requested,
    };
    let mode = requested.file_mode.map(|mode| mode & PERMISSION_BITS);
    let owner = |requested: Option<u32>, found: Option<u32>| match requested {
        None if !without_oci_runtime => json!(OF_PROCESS),
        requested => json!(requested.or(found)),
    };
    let device = without_empty(json!({
        "type": kind,
        "major": major,
        "minor": minor,
        "fileMode": mode.or(found.map(|found| found.mode)),
        "uid": owner(requested.uid, found.map(|found| found.uid)),
        "gid": owner(requested.gid, found.map(|found| found.gid)),
        "access": permissions(requested)?,
        "hostPath": without_oci_runtime.then_some(host_path),
    }));
    Ok(SpecEdit::set(&["linux", "devices", &requested.path], device))
}

fn host_path(requested: &Node) -> Result<&str, String> {
    let host_path =
        if requested.host_path.is_empty() { &requested.path } else { &requested.host_path };
    for path in [&requested.path, host_path] {
        if !path.starts_with('/') {
            return Err(format!("{path:?} is not an absolute path"));
        }
    }
    Ok(host_path)
}

fn compare(requested: &Node, path: &Path, found: DeviceNode) -> Result<(), String> {
    let differs = |property, requested: String, found: String| {
        let path = path.display();
        Err(format!(
            "{path} is specified with {property} {requested}, but the engine copies the device node of the host, which has {property} {found}"
        ))
    };
    // Type `u`, an unbuffered character device, is a character device.
    let requested_kind = if requested.kind == "u" { "c" } else { requested.kind.as_str() };
    if !requested_kind.is_empty() && requested_kind != found.kind {
        return differs("type", requested.kind.clone(), found.kind.to_owned());
    }
    if requested.major != 0 && (requested.major, requested.minor) != (found.major, found.minor) {
        let numbers = |major, minor| format!("{major}:{minor}");
        let (requested, found) =
            (numbers(requested.major, requested.minor), numbers(found.major, found.minor));
        return differs("numbers", requested, found);
    }
    for (property, requested, found) in
        [("uid", requested.uid, found.uid), ("gid", requested.gid, found.gid)]
    {
        if let Some(requested) = requested.filter(|requested| *requested != found) {
            return differs(property, requested.to_string(), found.to_string());
        }
    }
    match requested.file_mode.map(|mode| mode & PERMISSION_BITS) {
        Some(mode) if mode != found.mode => {
            differs("file mode", format!("{mode:04o}"), format!("{:04o}", found.mode))
        }
        _ => Ok(()),
    }
}

fn permissions(requested: &Node) -> Result<String, String> {
    let (path, access) = (&requested.path, &requested.permissions);
    if access.len() > 3 || !access.bytes().all(|byte| matches!(byte, b'r' | b'w' | b'm')) {
        return Err(format!(
            "permissions {access:?} of {path:?} may contain only r, w and m, at most three letters"
        ));
    }
    Ok(if access.is_empty() { "rwm".to_owned() } else { access.clone() })
}

/// The bits of a node's mode without those of the file type.
const PERMISSION_BITS: u32 = 0o7777;

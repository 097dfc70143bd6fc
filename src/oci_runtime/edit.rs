//! Edits of a container's `config.json`. Pure: a document and the edits in, a document out.
//!
//! The document is edited as JSON and not read into types, so that fields of newer engines stay as they
//! are. Rules are those of the OCI runtime specification, `config-linux.md`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{
    changes,
    document::{child, list, not_a, object, put_namespace},
    error::OciRuntimeError,
};
use crate::model::{
    oci_edits::{OciEdits, UserNamespace},
    path::parts,
    user_namespace::IdMapping,
};

/// What was mounted for a container beforehand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounted {
    /// The root file system; none where the engine's stays.
    pub root: Option<PathBuf>,
    /// Index in `mounts` of the document → the source in place of the one there.
    pub sources: Vec<(usize, PathBuf)>,
}

/// Whether the document has the annotation that forbids a start without edits.
pub fn requires_edits(document: &Value, annotation: &str) -> bool {
    document.get("annotations").and_then(|all| all.get(annotation)).is_some()
}

/// The document's root file system.
pub fn root_path(document: &Value) -> Option<&str> {
    document.get("root")?.get("path")?.as_str()
}

/// Mounts whose owners are to be mapped: index, source, and which edit asks for it.
pub fn mapped_mounts<'a>(document: &'a Value, edits: &OciEdits) -> Vec<(usize, &'a str, usize)> {
    let mounts = document.get("mounts").and_then(Value::as_array);
    let mounts = mounts.map(Vec::as_slice).unwrap_or_default();
    let wanted = edits.mounts.iter().enumerate().filter(|(_, edit)| edit.id_mappings.is_some());
    wanted
        .filter_map(|(at, edit)| {
            let index = mount_at(mounts, &edit.destination)?;
            let mount = mounts.get(index)?;
            is_bind(mount).then_some((index, mount.get("source")?.as_str()?, at))
        })
        .collect()
}

/// Edits the document.
///
/// # Errors
/// A mount that is to be changed is not there, or the document is no container's.
pub fn edit(
    document: &mut Value,
    edits: &OciEdits,
    mounted: &Mounted,
) -> Result<(), OciRuntimeError> {
    edit_mounts(document, edits, mounted)?;
    if let Some(root) = &mounted.root {
        object(document, &["root"])?.insert("path".to_owned(), json!(root));
    }
    if let Some(pin) = &edits.network_namespace {
        put_namespace(document, "network", Some(&pin.to_string_lossy()))?;
    }
    if let Some(user) = &edits.user_namespace {
        map_users(document, user)?;
    }
    bind_devices(document, edits)?;
    if !edits.ambient_capabilities.is_empty() {
        let process = object(document, &["process"])?;
        add_ambient(process, &edits.ambient_capabilities)?;
    }
    for (key, value) in &edits.unified {
        object(document, &["linux", "resources", "unified"])?.insert(key.clone(), json!(value));
    }
    limit_hugepages(document, edits)?;
    // From here on mounts are no longer where they were in the list.
    if edits.own_pause {
        keep_mounts_of_pause(document);
    }
    if edits.own_seccomp
        && let Some(linux) = document.get_mut("linux").and_then(Value::as_object_mut)
    {
        linux.remove("seccomp");
    }
    changes::change(document, &edits.changes)
}

/// Gives a process (the container's, or one of `exec`) ambient capabilities. A capability is kept in
/// the ambient set only if it is permitted and inheritable as well.
///
/// # Errors
/// The process has no list of that name, but something else.
pub fn add_ambient(
    process: &mut Map<String, Value>,
    names: &[String],
) -> Result<(), OciRuntimeError> {
    let capabilities = child(process, "capabilities")?;
    for set in ["bounding", "effective", "inheritable", "permitted", "ambient"] {
        let list = list(capabilities, set)?;
        for name in names {
            if !list.iter().any(|there| there == name) {
                list.push(json!(name));
            }
        }
    }
    Ok(())
}

fn edit_mounts(
    document: &mut Value,
    edits: &OciEdits,
    mounted: &Mounted,
) -> Result<(), OciRuntimeError> {
    if mounted.sources.is_empty() && edits.mounts.iter().all(|edit| edit.options.is_empty()) {
        return Ok(());
    }
    let top = document.as_object_mut().ok_or_else(|| not_a("an object", "document"))?;
    let mounts = list(top, "mounts")?;
    for (index, source) in &mounted.sources {
        let mount = mounts.get_mut(*index).and_then(Value::as_object_mut);
        mount
            .ok_or_else(|| not_a("an object", "mount"))?
            .insert("source".to_owned(), json!(source));
    }
    for edit in edits.mounts.iter().filter(|edit| !edit.options.is_empty()) {
        let Some(index) = mount_at(mounts, &edit.destination) else {
            if edit.is_implicit {
                continue;
            }
            let reason = format!("there is no mount at {}", edit.destination);
            return Err(OciRuntimeError::Edit(reason));
        };
        let mount = mounts.get_mut(index).and_then(Value::as_object_mut);
        let options = list(mount.ok_or_else(|| not_a("an object", "mount"))?, "options")?;
        options.extend(edit.options.iter().map(|option| json!(option)));
    }
    Ok(())
}

/// Of several mounts at one path the last one is seen.
fn mount_at(mounts: &[Value], destination: &str) -> Option<usize> {
    let wanted = parts(destination);
    mounts.iter().rposition(|mount| {
        mount.get("destination").and_then(Value::as_str).is_some_and(|at| parts(at) == wanted)
    })
}

fn is_bind(mount: &Value) -> bool {
    let options = mount.get("options").and_then(Value::as_array);
    let mut options = options.into_iter().flatten();
    mount.get("type").and_then(Value::as_str) == Some("bind")
        || options.any(|option| option == "bind" || option == "rbind")
}

/// The mappings are set with the path: runc 1.1 refuses a path without them, and newer versions compare.
fn map_users(document: &mut Value, user: &UserNamespace) -> Result<(), OciRuntimeError> {
    let path = user.path.as_deref().unwrap_or(Path::new("")).to_string_lossy();
    put_namespace(document, "user", Some(&path))?;
    let linux = object(document, &["linux"])?;
    let lines =
        |ids: IdMapping| json!([{"containerID": 0, "hostID": ids.host, "size": ids.length}]);
    linux.insert("uidMappings".to_owned(), lines(user.mappings.uids));
    linux.insert("gidMappings".to_owned(), lines(user.mappings.gids));
    clamp_ping_groups(document, user.mappings.gids.length)
}

/// Docker's own choice, all groups, is not valid where not all of them are mapped.
fn clamp_ping_groups(document: &mut Value, groups: u32) -> Result<(), OciRuntimeError> {
    let Some(range) = document.get("linux").and_then(|linux| linux.get("sysctl")?.get(PING_GROUPS))
    else {
        return Ok(());
    };
    let mut bounds = range.as_str().unwrap_or_default().split_whitespace();
    let last = groups.saturating_sub(1);
    let bound = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok());
    let (Some(from), Some(to)) = (bound(bounds.next()), bound(bounds.next())) else {
        return Ok(());
    };
    // A range that begins behind the last group is the caller's: the kernel names the error.
    if to > last && from <= last {
        let clamped = json!(format!("{from} {last}"));
        object(document, &["linux", "sysctl"])?.insert(PING_GROUPS.to_owned(), clamped);
    }
    Ok(())
}

fn bind_devices(document: &mut Value, edits: &OciEdits) -> Result<(), OciRuntimeError> {
    if edits.bound_devices.is_empty() {
        return Ok(());
    }
    // Of a directory with devices the engine lists each: its other files stay the host's.
    let bind = |device: &Value| {
        let at = device.get("path").and_then(Value::as_str)?;
        let all = parts(at);
        edits.bound_devices.iter().find_map(|bound| {
            let below = all.strip_prefix(parts(&bound.container_path).as_slice())?;
            let source: PathBuf =
                std::iter::once(bound.host_path.as_str()).chain(below.iter().copied()).collect();
            Some(json!({
                "type": "bind", "source": source, "destination": at,
                "options": ["bind", "nosuid", "noexec", "rprivate"],
            }))
        })
    };
    let devices = list(object(document, &["linux"])?, "devices")?;
    let binds: Vec<Value> = devices.iter().filter_map(bind).collect();
    devices.retain(|device| bind(device).is_none());
    let top = document.as_object_mut().ok_or_else(|| not_a("an object", "document"))?;
    list(top, "mounts")?.extend(binds);
    Ok(())
}

fn limit_hugepages(document: &mut Value, edits: &OciEdits) -> Result<(), OciRuntimeError> {
    if edits.hugepage_limits.is_empty() {
        return Ok(());
    }
    let limits = list(object(document, &["linux", "resources"])?, "hugepageLimits")?;
    let size_of = |limit: &Value| limit.get("pageSize").and_then(Value::as_str).map(str::to_owned);
    limits.retain(|limit| size_of(limit).is_none_or(|s| !edits.hugepage_limits.contains_key(&s)));
    limits.extend(
        edits.hugepage_limits.iter().map(|(size, bytes)| json!({"pageSize": size, "limit": bytes})),
    );
    Ok(())
}

/// runc needs these two itself. The rest, on cgroup v1 more than ten mounts, nobody sees: a container
/// that joins the pod's IPC namespace is given `/dev/shm` and the pod's files by the engine.
fn keep_mounts_of_pause(document: &mut Value) {
    let mounts = document.get_mut("mounts").and_then(Value::as_array_mut);
    let Some(mounts) = mounts else { return };
    mounts.retain(|mount| {
        let destination = mount.get("destination").and_then(Value::as_str);
        destination.is_none_or(|at| at == "/proc" || at == "/dev")
    });
}

const PING_GROUPS: &str = "net.ipv4.ping_group_range";

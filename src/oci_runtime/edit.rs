//! Changes a container's `config.json`. Pure: the functions change a document in memory.
//!
//! dockbridge-runtime edits the document as JSON and does not parse it into types, so that fields of newer engines stay
//! unchanged. `config.md` and `config-linux.md` of the OCI runtime specification define the fields.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    apply::{apply, mount_at},
    document::{is_text, list, object, wrong_type},
    error::OciRuntimeError,
};
use crate::model::{
    oci_edits::OciEdits,
    path::parts,
    user_namespace::{IdMapping, IdMappings},
};

/// The mounts that dockbridge-runtime has made for a container before the lower runtime creates it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounted {
    /// Mount point of the new root file system. `None` if the container uses the engine's root file system.
    pub root: Option<PathBuf>,
    /// New sources of mounts: for each, the mount's index in the document's `mounts`, and the new source.
    pub sources: Vec<(usize, PathBuf)>,
}

/// Path of the container's root file system, as the document has it.
pub fn root_path(document: &Value) -> Option<&str> {
    document.get("root")?.get("path")?.as_str()
}

/// The bind mounts that need mapped ids: index and source of the mount, and index into `edits.mapped_mounts`.
pub fn mapped_mounts<'a>(document: &'a Value, edits: &OciEdits) -> Vec<(usize, &'a str, usize)> {
    let mounts = document.get("mounts").and_then(Value::as_array);
    let mounts = mounts.map(Vec::as_slice).unwrap_or_default();
    let wanted = edits.mapped_mounts.iter().enumerate();
    wanted
        .filter_map(|(at, mapped)| {
            let index = mount_at(mounts, &mapped.destination)?;
            let mount = mounts.get(index)?;
            is_bind(mount).then_some((index, mount.get("source")?.as_str()?, at))
        })
        .collect()
}

/// Applies all edits to the document.
///
/// # Errors
/// Fails if the document is not that of a container, or does not have a mount whose options `edits.edits` change.
pub fn edit(
    document: &mut Value,
    edits: &OciEdits,
    mounted: &Mounted,
) -> Result<(), OciRuntimeError> {
    // This step must be the first: later steps add or remove mounts and so can change the indexes.
    for (index, source) in &mounted.sources {
        let mount = list(document, &["mounts"])?.get_mut(*index);
        let mount = mount.ok_or_else(|| wrong_type("a mount", &index.to_string()))?;
        object(mount, &[])?.insert("source".to_owned(), json!(source));
    }
    if let Some(root) = &mounted.root {
        object(document, &["root"])?.insert("path".to_owned(), json!(root));
    }
    if let Some(users) = &edits.users {
        map_users(document, users)?;
    }
    bind_devices(document, edits)?;
    if edits.own_pause {
        keep_mounts_of_pause(document);
    }
    apply(document, &edits.edits)?;
    if edits.users.is_some() {
        bind_sysfs(document)?;
    }
    // This step is the last, so that no mount option of the request overrides `nodev`. If a plugin has
    // replaced the mount, the plugin's mount stays unchanged.
    let is_mounted = |mount: &Value| {
        mounted.sources.iter().any(|(_, at)| mount.get("source") == Some(&json!(at)))
    };
    for mapped in edits.mapped_mounts.iter().filter(|mapped| mapped.without_devices) {
        let mounts = list(document, &["mounts"])?;
        let mount = mount_at(mounts, &mapped.destination).and_then(|at| mounts.get_mut(at));
        if let Some(mount) = mount.filter(|mount| is_mounted(mount)) {
            list(mount, &["options"])?.push(json!("nodev"));
        }
    }
    Ok(())
}

fn is_bind(mount: &Value) -> bool {
    let options = mount.get("options").and_then(Value::as_array);
    let mut options = options.into_iter().flatten();
    is_text(mount, "type", "bind") || options.any(|option| option == "bind" || option == "rbind")
}

/// Writes the id mappings of the user namespace. runc 1.1 refuses the path of a user namespace without
/// mappings, and newer versions compare the mappings with the namespace.
fn map_users(document: &mut Value, users: &IdMappings) -> Result<(), OciRuntimeError> {
    let lines =
        |ids: IdMapping| json!([{"containerID": 0, "hostID": ids.host, "size": ids.length}]);
    let linux = object(document, &["linux"])?;
    linux.insert("uidMappings".to_owned(), lines(users.uids));
    linux.insert("gidMappings".to_owned(), lines(users.gids));
    clamp_ping_groups(document, users.gids.length)
}

/// Replaces the sysfs by a bind mount of the host's `/sys` if the container uses the host's network. In a
/// user namespace, the kernel does not allow mounting a sysfs of the host's network namespace.
fn bind_sysfs(document: &mut Value) -> Result<(), OciRuntimeError> {
    let namespaces = list(document, &["linux", "namespaces"])?;
    if namespaces.iter().any(|namespace| is_text(namespace, "type", "network")) {
        return Ok(());
    }
    for mount in list(document, &["mounts"])?.iter_mut().filter(|it| is_text(it, "type", "sysfs")) {
        let is_read_only = list(mount, &["options"])?.iter().any(|option| option == "ro");
        let access = if is_read_only { "rro" } else { "rw" };
        let options = ["rbind", access, "nosuid", "nodev", "noexec"];
        let bind = json!({"type": "bind", "source": "/sys", "options": options});
        object(mount, &[])?.extend(bind.as_object().cloned().unwrap_or_default());
    }
    Ok(())
}

/// Limits ping to mapped groups: in a user namespace, the kernel refuses Docker's range of all groups.
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
    // A range after the last mapped group comes from the pod's own sysctl, and the kernel refuses this range.
    if to > last && from <= last {
        let clamped = json!(format!("{from} {last}"));
        object(document, &["linux", "sysctl"])?.insert(PING_GROUPS.to_owned(), clamped);
    }
    Ok(())
}

fn bind_devices(document: &mut Value, edits: &OciEdits) -> Result<(), OciRuntimeError> {
    if edits.moved_devices.is_empty() {
        return Ok(());
    }
    // For a requested directory of devices, `config.json` lists each device in it, and each gets a bind mount.
    let bind = |device: &Value| {
        let at = device.get("path").and_then(Value::as_str)?;
        let all = parts(at);
        edits.moved_devices.iter().find_map(|(container_path, host_path)| {
            let below = all.strip_prefix(parts(container_path).as_slice())?;
            let source: PathBuf =
                std::iter::once(host_path.as_str()).chain(below.iter().copied()).collect();
            Some(json!({
                "type": "bind", "source": source, "destination": at,
                "options": ["bind", "nosuid", "noexec", "rprivate"],
            }))
        })
    };
    let devices = list(document, &["linux", "devices"])?;
    let binds: Vec<Value> = devices.iter().filter_map(bind).collect();
    devices.retain(|device| bind(device).is_none());
    list(document, &["mounts"])?.extend(binds);
    Ok(())
}

/// Removes all mounts of the pause container except `/proc` and `/dev`, which runc needs. The engine itself mounts
/// `/dev/shm` and the pod's files into the pod's other containers.
fn keep_mounts_of_pause(document: &mut Value) {
    let mounts = document.get_mut("mounts").and_then(Value::as_array_mut);
    let Some(mounts) = mounts else { return };
    mounts.retain(|mount| {
        let destination = mount.get("destination").and_then(Value::as_str);
        destination.is_none_or(|at| at == "/proc" || at == "/dev")
    });
}

const PING_GROUPS: &str = "net.ipv4.ping_group_range";

//! Applies edits to a container's `config.json`. Pure: no I/O.

use serde_json::{Value, json};

use super::{
    document::{is_text, list, object, wrong_type},
    error::OciRuntimeError,
};
use crate::model::{
    path::parts,
    spec_edit::{OF_PROCESS, SpecEdit},
};

/// Applies the edits in their order.
///
/// # Errors
/// Fails if the document is not that of a container, or does not have a mount whose options an edit changes.
pub(super) fn apply<'a>(
    document: &mut Value,
    edits: impl IntoIterator<Item = &'a SpecEdit>,
) -> Result<(), OciRuntimeError> {
    for edit in edits {
        let keys = edit.keys();
        let (key, parents) =
            keys.split_last().ok_or_else(|| wrong_type("a key", "an empty path"))?;
        match edit {
            SpecEdit::Set { value, .. } => set(document, (parents, key), value)?,
            SpecEdit::Remove { .. } => remove(document, (parents, key)),
            SpecEdit::Add { values, .. } => add(document, &keys, values)?,
        }
    }
    Ok(())
}

/// The index of the mount at a path. If several mounts have the same path, the container sees the last of them.
pub(super) fn mount_at(mounts: &[Value], destination: &str) -> Option<usize> {
    mounts.iter().rposition(|mount| is_entry("destination", mount, destination))
}

/// The field that identifies an entry of a list: for the environment, the text before `=`.
fn key_field(list: &[&str]) -> Option<&'static str> {
    match list {
        ["mounts"] => Some("destination"),
        ["linux", "devices"] => Some("path"),
        ["linux", "namespaces"] | ["process", "rlimits"] => Some("type"),
        ["linux", "resources", "hugepageLimits"] => Some("pageSize"),
        ["process", "env"] => Some(VARIABLE),
        _ => None,
    }
}

fn is_entry(field: &str, entry: &Value, key: &str) -> bool {
    let found = match field {
        VARIABLE => entry.as_str().map(|text| text.split_once('=').map_or(text, |it| it.0)),
        _ => entry.get(field).and_then(Value::as_str),
    };
    let is_path = matches!(field, "destination" | "path");
    found.is_some_and(|found| found == key || is_path && parts(found) == parts(key))
}

fn set(
    document: &mut Value,
    (parents, key): (&[&str], &str),
    value: &Value,
) -> Result<(), OciRuntimeError> {
    let Some(field) = key_field(parents) else {
        object(document, parents)?.insert(key.to_owned(), value.clone());
        return Ok(());
    };
    let mut entry = match field {
        VARIABLE => json!(format!("{key}={}", value.as_str().unwrap_or_default())),
        _ => value.clone(),
    };
    if field != VARIABLE {
        object(&mut entry, &[])?.insert(field.to_owned(), json!(key));
    }
    let user = document.pointer("/process/user").cloned().unwrap_or_default();
    let access = entry.as_object_mut().filter(|_| field == "path").and_then(|device| {
        for id in ["uid", "gid"] {
            if device.get(id).is_some_and(|owner| owner == OF_PROCESS) {
                let owner = user.get(id).and_then(Value::as_u64).unwrap_or(0);
                device.insert(id.to_owned(), json!(owner));
            }
        }
        device.remove("hostPath");
        device.remove("access")
    });
    let entries = list(document, parents)?;
    // If a variable were set twice, programs could use the first value.
    let there = entries.iter().position(|it| field == VARIABLE && is_entry(field, it, key));
    entries.retain(|it| !is_entry(field, it, key));
    // An existing mount below the new mount must come later in the list, or the new mount would hide it.
    let is_below = |it: &Value| {
        let destination = it.get("destination").and_then(Value::as_str);
        field == "destination" && destination.is_some_and(|at| parts(at).starts_with(&parts(key)))
    };
    let place = there.or_else(|| entries.iter().position(is_below)).unwrap_or(entries.len());
    entries.insert(place, entry);
    match field {
        "destination" => share_root(document, value),
        "path" => access.map_or(Ok(()), |access| allow(document, value, &access)),
        _ => Ok(()),
    }
}

fn remove(document: &mut Value, (parents, key): (&[&str], &str)) {
    match parents.iter().try_fold(document, |at, key| at.get_mut(*key)) {
        Some(Value::Object(object)) => drop(object.remove(key)),
        Some(Value::Array(entries)) => {
            entries.retain(|it| key_field(parents).is_none_or(|field| !is_entry(field, it, key)));
        }
        _ => {}
    }
}

fn add(document: &mut Value, keys: &[&str], values: &[Value]) -> Result<(), OciRuntimeError> {
    let there = match keys {
        ["mounts", destination, option] => {
            let mounts = list(document, &["mounts"])?;
            let mount = mount_at(mounts, destination).and_then(|at| mounts.get_mut(at));
            let missing =
                || OciRuntimeError::Edit(format!("the container has no mount at {destination}"));
            list(mount.ok_or_else(missing)?, &[option])?
        }
        _ => list(document, keys)?,
    };
    let is_set = keys.first() == Some(&"process");
    for value in values {
        if !is_set || !there.contains(value) {
            there.push(value.clone());
        }
    }
    Ok(())
}

/// Mounts propagate through the container's root, so the root needs at least the propagation of `mount`.
fn share_root(document: &mut Value, mount: &Value) -> Result<(), OciRuntimeError> {
    let options = mount.get("options").and_then(Value::as_array);
    let has = |word: &str| options.is_some_and(|all| all.iter().any(|option| option == word));
    let linux = object(document, &["linux"])?;
    let now = linux.get(ROOT_PROPAGATION).and_then(Value::as_str).unwrap_or_default();
    let needed = match now {
        _ if has("shared") || has("rshared") => "rshared",
        "shared" | "rshared" | "slave" | "rslave" => return Ok(()),
        _ if has("slave") || has("rslave") => "rslave",
        _ => return Ok(()),
    };
    linux.insert(ROOT_PROPAGATION.to_owned(), json!(needed));
    Ok(())
}

fn allow(document: &mut Value, device: &Value, access: &Value) -> Result<(), OciRuntimeError> {
    // A named pipe needs no permission of the device cgroup.
    if is_text(device, "type", "p") {
        return Ok(());
    }
    // For a device of the type `u` (unbuffered character device), the device cgroup uses the type `c`.
    let kind = if is_text(device, "type", "u") { &json!("c") } else { &device["type"] };
    list(document, &["linux", "resources", "devices"])?.push(json!({
        "allow": true, "type": kind, "major": device["major"], "minor": device["minor"],
        "access": access,
    }));
    Ok(())
}

/// Stands for the name of the key field in a list whose entries are `NAME=value`.
const VARIABLE: &str = "=";
const ROOT_PROPAGATION: &str = "rootfsPropagation";

//! Applies edits to a container's `config.json`. Pure.

use serde_json::{Value, json};

use super::{
    document::{is, list, not_a, object},
    error::OciRuntimeError,
};
use crate::model::{path::parts, spec_edit::SpecEdit};

/// Applies the edits in their order.
///
/// # Errors
/// The document is no container's, or has no mount whose options are to be changed.
pub(super) fn apply<'a>(
    document: &mut Value,
    edits: impl IntoIterator<Item = &'a SpecEdit>,
) -> Result<(), OciRuntimeError> {
    for edit in edits {
        let keys = edit.keys();
        let (key, above) = keys.split_last().ok_or_else(|| not_a("a place", "an empty path"))?;
        match edit {
            SpecEdit::Set { value, .. } => set(document, (above, key), value)?,
            SpecEdit::Remove { .. } => remove(document, (above, key)),
            SpecEdit::Add { values, .. } => add(document, &keys, values)?,
        }
    }
    Ok(())
}

/// Of several mounts at one path the last one is seen.
pub(super) fn mount_at(mounts: &[Value], destination: &str) -> Option<usize> {
    mounts.iter().rposition(|mount| is_entry("destination", mount, destination))
}

/// The field with the key of a list's entries. Those of the environment are texts that begin with it.
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
    (above, key): (&[&str], &str),
    value: &Value,
) -> Result<(), OciRuntimeError> {
    let Some(field) = key_field(above) else {
        object(document, above)?.insert(key.to_owned(), value.clone());
        return Ok(());
    };
    let mut entry = match field {
        VARIABLE => json!(format!("{key}={}", value.as_str().unwrap_or_default())),
        _ => value.clone(),
    };
    if field != VARIABLE {
        object(&mut entry, &[])?.insert(field.to_owned(), json!(key));
    }
    let access = entry.as_object_mut().filter(|_| field == "path").and_then(|device| {
        device.remove("hostPath");
        device.remove("access")
    });
    let entries = list(document, above)?;
    // Programs may use the first of two variables.
    let there = entries.iter().position(|it| field == VARIABLE && is_entry(field, it, key));
    entries.retain(|it| !is_entry(field, it, key));
    // Below a mount that comes later, this one would be hidden.
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

fn remove(document: &mut Value, (above, key): (&[&str], &str)) {
    match above.iter().try_fold(document, |at, key| at.get_mut(*key)) {
        Some(Value::Object(object)) => drop(object.remove(key)),
        Some(Value::Array(entries)) => {
            entries.retain(|it| key_field(above).is_none_or(|field| !is_entry(field, it, key)));
        }
        _ => {}
    }
}

fn add(document: &mut Value, keys: &[&str], values: &[Value]) -> Result<(), OciRuntimeError> {
    let there = match keys {
        ["mounts", destination, option] => {
            let mounts = list(document, &["mounts"])?;
            let mount = mount_at(mounts, destination).and_then(|at| mounts.get_mut(at));
            let missing = || OciRuntimeError::Edit(format!("there is no mount at {destination}"));
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

/// Mount propagation into and out of the container passes its root, which has to propagate as the mounts
/// do.
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

/// Lets the container use a device.
fn allow(document: &mut Value, device: &Value, access: &Value) -> Result<(), OciRuntimeError> {
    // A pipe is no device.
    if is(device, "type", "p") {
        return Ok(());
    }
    // Unbuffered character devices are character devices.
    let kind = if is(device, "type", "u") { &json!("c") } else { &device["type"] };
    list(document, &["linux", "resources", "devices"])?.push(json!({
        "allow": true, "type": kind, "major": device["major"], "minor": device["minor"],
        "access": access,
    }));
    Ok(())
}

/// In place of a field: the entries are `NAME=value`.
const VARIABLE: &str = "=";
const ROOT_PROPAGATION: &str = "rootfsPropagation";

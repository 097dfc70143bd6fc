//! What CDI devices and NRI plugins change in a container's `config.json`. Pure, as [`super::edit`] is.
//!
//! What is set takes the place of what was there, so that nothing of the engine's is left beside it.

use serde_json::{Map, Value, json};

use super::{
    document::{child, fields, is, list, not_a, object, put_namespace},
    error::OciRuntimeError,
};
use crate::model::{
    oci_changes::{DeviceChange, Hooks, OciChanges, RdtChange},
    path::parts,
};

/// Changes the document.
///
/// # Errors
/// The document is no container's.
pub(super) fn change(document: &mut Value, changes: &OciChanges) -> Result<(), OciRuntimeError> {
    add_hooks(document, &changes.hooks)?;
    change_mounts(document, changes)?;
    changes.devices.iter().try_for_each(|device| change_device(document, device))?;
    if !changes.device_rules.is_empty() {
        let rules = list(object(document, RESOURCES)?, "devices")?;
        rules.extend(changes.device_rules.iter().map(|rule| Value::Object(fields(rule))));
    }
    change_process(document, changes)?;
    change_resources(document, changes)?;
    for (kind, path) in &changes.namespaces {
        put_namespace(document, kind, path.as_deref())?;
    }
    for (key, value) in &changes.annotations {
        put(object(document, &["annotations"])?, key, value.as_ref().map(|text| json!(text)));
    }
    for (key, value) in &changes.sysctls {
        put(object(document, &["linux", "sysctl"])?, key, value.as_ref().map(|text| json!(text)));
    }
    for (host, name) in &changes.net_devices {
        let device = name.as_ref().map(|name| match name.as_str() {
            "" => json!({}),
            name => json!({"name": name}),
        });
        put(object(document, &["linux", "netDevices"])?, host, device);
    }
    change_rdt(document, &changes.rdt)?;
    let whole = [
        ("seccomp", changes.seccomp.as_ref().map(fields)),
        ("memoryPolicy", changes.memory_policy.as_ref().map(fields)),
    ];
    for (key, value) in whole {
        if let Some(value) = value {
            object(document, &["linux"])?.insert(key.to_owned(), Value::Object(value));
        }
    }
    if !changes.cgroups_path.is_empty() {
        object(document, &["linux"])?.insert("cgroupsPath".to_owned(), json!(changes.cgroups_path));
    }
    Ok(())
}

fn add_hooks(document: &mut Value, hooks: &Hooks) -> Result<(), OciRuntimeError> {
    for (name, added) in Hooks::NAMES.into_iter().zip(hooks.lists()) {
        if !added.is_empty() {
            let there = list(object(document, &["hooks"])?, name)?;
            there.extend(added.iter().map(|hook| Value::Object(fields(hook))));
        }
    }
    Ok(())
}

/// A new mount comes before the first one below it, which it would hide otherwise.
fn change_mounts(document: &mut Value, changes: &OciChanges) -> Result<(), OciRuntimeError> {
    for change in &changes.mounts {
        let top = document.as_object_mut().ok_or_else(|| not_a("an object", "document"))?;
        let mounts = list(top, "mounts")?;
        let place = parts(&change.destination);
        mounts.retain(|mount| destination(mount) != place);
        let Some(mount) = &change.mount else { continue };
        let mut new = fields(mount);
        new.insert("destination".to_owned(), json!(change.destination));
        let below = mounts.iter().position(|mount| destination(mount).starts_with(&place));
        mounts.insert(below.unwrap_or(mounts.len()), Value::Object(new));
        share_root(document, &mount.options)?;
    }
    Ok(())
}

fn destination(mount: &Value) -> Vec<&str> {
    mount.get("destination").and_then(Value::as_str).map(parts).unwrap_or_default()
}

/// Mount propagation into and out of the container passes its root, which has to propagate as the mounts
/// do.
fn share_root(document: &mut Value, options: &[String]) -> Result<(), OciRuntimeError> {
    let has = |word: &str| options.iter().any(|option| option == word);
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

fn change_device(document: &mut Value, change: &DeviceChange) -> Result<(), OciRuntimeError> {
    let place = parts(&change.path);
    let devices = list(object(document, &["linux"])?, "devices")?;
    devices.retain(|device| {
        device.get("path").and_then(Value::as_str).is_none_or(|path| parts(path) != place)
    });
    let Some(device) = &change.device else { return Ok(()) };
    let mut node = fields(device);
    node.insert("path".to_owned(), json!(change.path));
    devices.push(Value::Object(node));
    // A pipe is no device.
    if device.kind == "p" {
        return Ok(());
    }
    // Unbuffered character devices are character devices.
    let kind = if device.kind == "u" { "c" } else { &device.kind };
    let rules = list(object(document, RESOURCES)?, "devices")?;
    rules.push(json!({
        "allow": true, "type": kind, "major": device.major, "minor": device.minor,
        "access": change.access,
    }));
    Ok(())
}

fn change_process(document: &mut Value, changes: &OciChanges) -> Result<(), OciRuntimeError> {
    if !changes.args.is_empty() {
        object(document, &["process"])?.insert("args".to_owned(), json!(changes.args));
    }
    if !changes.env.is_empty() || !changes.groups.is_empty() {
        change_any_process(object(document, &["process"])?, changes)?;
    }
    if let Some(score) = changes.oom_score_adj {
        object(document, &["process"])?.insert("oomScoreAdj".to_owned(), json!(score));
    }
    if !changes.rlimits.is_empty() {
        let limits = list(object(document, &["process"])?, "rlimits")?;
        for new in &changes.rlimits {
            limits.retain(|limit| !is(limit, "type", &new.kind));
            limits.push(Value::Object(fields(new)));
        }
    }
    let whole = [
        ("ioPriority", changes.io_priority.as_ref().map(fields)),
        ("scheduler", changes.scheduler.as_ref().map(fields)),
    ];
    for (key, value) in whole {
        if let Some(value) = value {
            object(document, &["process"])?.insert(key.to_owned(), Value::Object(value));
        }
    }
    Ok(())
}

/// Changes environment and groups, which the container's process and commands in it have. A variable keeps
/// its place, as programs may use the first of two.
pub(super) fn change_any_process(
    process: &mut Map<String, Value>,
    changes: &OciChanges,
) -> Result<(), OciRuntimeError> {
    if !changes.groups.is_empty() {
        let groups = list(child(process, "user")?, "additionalGids")?;
        for group in changes.groups.iter().map(|group| json!(group)) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
    }
    let env = list(process, "env")?;
    for (name, value) in &changes.env {
        let is_it = |text: &Value| {
            let text = text.as_str().unwrap_or_default();
            text.split_once('=').map_or(text, |(name, _)| name) == name
        };
        let place = env.iter().position(is_it);
        env.retain(|text| !is_it(text));
        if let Some(value) = value {
            let place = place.unwrap_or(env.len());
            env.insert(place, json!(format!("{name}={value}")));
        }
    }
    Ok(())
}

fn change_resources(document: &mut Value, changes: &OciChanges) -> Result<(), OciRuntimeError> {
    for (key, values) in [("memory", fields(&changes.memory)), ("cpu", fields(&changes.cpu))] {
        if !values.is_empty() {
            child(object(document, RESOURCES)?, key)?.extend(values);
        }
    }
    Ok(())
}

fn change_rdt(document: &mut Value, change: &RdtChange) -> Result<(), OciRuntimeError> {
    if change.remove {
        object(document, &["linux"])?.remove("intelRdt");
    }
    let mut values = fields(change);
    values.remove("remove");
    if !values.is_empty() {
        object(document, &["linux", "intelRdt"])?.extend(values);
    }
    Ok(())
}

fn put(object: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(object.insert(key.to_owned(), value)),
        None => drop(object.remove(key)),
    }
}

const RESOURCES: &[&str] = &["linux", "resources"];
const ROOT_PROPAGATION: &str = "rootfsPropagation";

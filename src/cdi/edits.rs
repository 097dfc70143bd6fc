//! The container edits of CDI devices, as edits of a container's `config.json`.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use serde_json::json;
use tracing::info;

use super::{
    device_index::{DeviceIndex, IndexedDevice},
    device_node,
    specification::{Edits, Hook, IntelRdt, Mount},
};
use crate::{
    error::{Failure, chain},
    host::error::HostError,
    model::spec_edit::{IGNORED_OPTIONS, SpecEdit, without_empty},
};

/// Checks whether the engine can do an edit. The error names the property for which the Engine API has no field.
#[derive(Clone, Copy, Debug)]
pub struct Check(pub fn(&SpecEdit) -> Result<(), String>);

/// The edits of all `devices`. `engine_check` is set if the engine, not dockbridge's OCI runtime, has to make them.
pub(super) fn collect(
    index: &DeviceIndex,
    devices: &[String],
    engine_check: Option<Check>,
) -> Result<Vec<SpecEdit>, Failure> {
    let mut edits = Vec::new();
    let mut common: Vec<&Arc<_>> = Vec::new();
    for (position, device) in devices.iter().enumerate() {
        if devices.iter().take(position).any(|earlier| earlier == device) {
            continue;
        }
        let IndexedDevice { file, specification, position_in_file, .. } = index.find(device)?;
        let mut parts = Vec::new();
        // Edits that all devices of a specification file share are applied once.
        if !common.iter().any(|known| Arc::ptr_eq(known, specification)) {
            common.push(specification);
            parts.push(&specification.container_edits);
        }
        parts.extend(
            specification.devices.get(*position_in_file).map(|device| &device.container_edits),
        );
        for requested in parts {
            let made = spec_edits(requested, engine_check).map_err(|problem| {
                Failure::unmet(format!("CDI device {device:?} in {}: {problem}", file.display()))
            })?;
            // Intel RDT settings are not merged: only the last ones in the order of `devices` apply.
            if requested.intel_rdt.is_some() {
                edits.retain(|edit: &SpecEdit| edit.keys().get(1) != Some(&"intelRdt"));
            }
            edits.extend(made);
            if engine_check.is_some() {
                log_ignored_options(device, requested);
            }
        }
    }
    Ok(edits)
}

/// Returns the edits for `config.json`, or why one of them cannot be applied.
pub(super) fn spec_edits(
    requested: &Edits,
    engine_check: Option<Check>,
) -> Result<Vec<SpecEdit>, String> {
    let without_oci_runtime = engine_check.is_some();
    let variables = requested.env.iter().map(|text| variable(text));
    let nodes = requested.device_nodes.iter();
    let nodes = nodes.map(|node| device_node::edit(node, without_oci_runtime));
    let mounts = requested.mounts.iter().map(|it| mount(it, without_oci_runtime));
    let hooks = requested.hooks.iter().map(hook);
    let all = variables.chain(nodes).chain(mounts).chain(hooks);
    let mut edits = all.collect::<Result<Vec<_>, _>>()?;
    for device in &requested.net_devices {
        let at = ["linux", "netDevices", device.host_interface_name.as_str()];
        edits.push(SpecEdit::set(&at, without_empty(json!({"name": device.name}))));
    }
    edits.extend(requested.intel_rdt.iter().flat_map(rdt));
    // The CDI specification requires that group 0 is ignored.
    let groups = requested.additional_gids.iter().copied().filter(|group| *group != 0);
    let groups: Vec<u32> = groups.collect();
    if !groups.is_empty() {
        edits.push(SpecEdit::add(&["process", "user", "additionalGids"], groups));
    }
    if let Some(Check(check)) = engine_check {
        edits.iter().try_for_each(check).map_err(|what| {
            format!(
                "the Engine API has no field for the {what} of the device: register dockbridge-runtime, \
                 which can set it if the runtime of the pod runs runc (`dockbridge setup`, Docker 24 or \
                 newer), or let Docker read CDI itself (Docker 25 or newer with \"features\": {{\"cdi\": true}})"
            )
        })?;
    }
    Ok(edits)
}

fn log_ignored_options(device: &str, edits: &Edits) {
    let options = edits.mounts.iter().flat_map(|mount| &mount.options);
    let ignored: BTreeSet<&String> =
        options.filter(|option| IGNORED_OPTIONS.contains(&option.as_str())).collect();
    if !ignored.is_empty() {
        info!(
            device,
            options = ?ignored,
            "ignoring these mount options of a CDI device; a mount has them only if its source is mounted with \
             them on the host"
        );
    }
}

fn variable(text: &str) -> Result<SpecEdit, String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty() && !text.contains('\0'));
    let malformed = || format!("environment variable {text:?} does not have the form NAME=value");
    let (name, value) = pair.ok_or_else(malformed)?;
    Ok(SpecEdit::set(&["process", "env", name], value))
}

fn mount(requested: &Mount, without_oci_runtime: bool) -> Result<SpecEdit, String> {
    let (source, target) = (&requested.host_path, &requested.container_path);
    let is_bind = matches!(requested.kind.as_str(), "" | "bind" | "none");
    for path in is_bind.then_some(source).into_iter().chain([target]) {
        if !path.starts_with('/') {
            return Err(format!("{path:?} is not an absolute path"));
        }
    }
    // Fails here if the source is missing, so that the error names the CDI device.
    if without_oci_runtime && is_bind {
        let source = Path::new(source);
        fs::metadata(source).map_err(|e| chain(&HostError::new("mount", source, e)))?;
    }
    let mut options = requested.options.clone();
    if is_bind && !options.iter().any(|option| option == "bind" || option == "rbind") {
        options.push("rbind".to_owned());
    }
    let kind = if is_bind { "bind" } else { requested.kind.as_str() };
    let mount = without_empty(json!({"type": kind, "source": source, "options": options}));
    Ok(SpecEdit::set(&["mounts", target], mount))
}

fn hook(requested: &Hook) -> Result<SpecEdit, String> {
    let Hook { hook_name, path, args, env, timeout } = requested;
    let hook = json!({"path": path, "args": args, "env": env, "timeout": timeout});
    let edit = SpecEdit::add(&["hooks", hook_name], [without_empty(hook)]);
    let unknown = || format!("OCI runtimes know no hook {hook_name:?}");
    if edit.is_for_plugins() { Ok(edit) } else { Err(unknown()) }
}

fn rdt(requested: &IntelRdt) -> Vec<SpecEdit> {
    let if_true = |flag: Option<bool>| flag.filter(|set| *set);
    let values = without_empty(json!({
        "closID": requested.clos_id,
        "l3CacheSchema": requested.l3_cache_schema,
        "memBwSchema": requested.mem_bw_schema,
        "schemata": requested.schemata,
        "enableMonitoring": if_true(requested.enable_monitoring),
        "enableCMT": if_true(requested.enable_cmt),
        "enableMBM": if_true(requested.enable_mbm),
    }));
    let values = values.as_object().into_iter().flatten();
    values.map(|(key, value)| SpecEdit::set(&["linux", "intelRdt", key], value.clone())).collect()
}

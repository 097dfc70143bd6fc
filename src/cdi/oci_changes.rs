//! All container edits of CDI devices, as changes of a container's `config.json` for our OCI runtime.

use super::{
    device_index::DeviceIndex,
    device_node,
    engine_edits::{each, variable},
    error::{CdiError, EditError},
    specification::{Edits, Hook, IntelRdt, Mount},
};
use crate::model::oci_changes::{self, Hooks, MountChange, OciChanges, OciMount, RdtChange};

/// The edits of all devices together.
pub(super) fn collect(index: &DeviceIndex, devices: &[String]) -> Result<OciChanges, CdiError> {
    let mut changes = OciChanges::default();
    each(index, devices, |_, requested| add(&mut changes, requested))?;
    Ok(changes)
}

pub(super) fn add(changes: &mut OciChanges, requested: &Edits) -> Result<(), EditError> {
    for text in &requested.env {
        let (name, value) = variable(text)?;
        changes.env.push((name, Some(value)));
    }
    for node in &requested.device_nodes {
        changes.devices.push(device_node::change(node)?);
    }
    for requested in &requested.mounts {
        changes.mounts.push(mount(requested)?);
    }
    for requested in &requested.hooks {
        hook(&mut changes.hooks, requested)?;
    }
    for device in &requested.net_devices {
        let name = Some(device.name.clone());
        changes.net_devices.insert(device.host_interface_name.clone(), name);
    }
    if let Some(requested) = &requested.intel_rdt {
        changes.rdt = rdt(requested);
    }
    // The specification: 0 is ignored.
    changes.groups.extend(requested.additional_gids.iter().filter(|group| **group != 0));
    Ok(())
}

fn mount(requested: &Mount) -> Result<MountChange, EditError> {
    let is_bind = matches!(requested.kind.as_str(), "" | "bind" | "none");
    let sources = is_bind.then_some(&requested.host_path);
    for path in sources.into_iter().chain([&requested.container_path]) {
        if !path.starts_with('/') {
            return Err(EditError::Relative { path: path.clone() });
        }
    }
    let mut options = requested.options.clone();
    if is_bind && !options.iter().any(|option| option == "bind" || option == "rbind") {
        options.push("rbind".to_owned());
    }
    let kind = if is_bind { "bind".to_owned() } else { requested.kind.clone() };
    let mount = OciMount { kind, source: requested.host_path.clone(), options };
    Ok(MountChange { destination: requested.container_path.clone(), mount: Some(mount) })
}

fn hook(hooks: &mut Hooks, requested: &Hook) -> Result<(), EditError> {
    let lists = Hooks::NAMES.into_iter().zip(hooks.lists_mut());
    let list = lists.into_iter().find(|(name, _)| *name == requested.hook_name);
    let (_, list) = list.ok_or_else(|| EditError::Hook { name: requested.hook_name.clone() })?;
    list.push(oci_changes::Hook {
        path: requested.path.clone(),
        args: requested.args.clone(),
        env: requested.env.clone(),
        timeout: requested.timeout,
    });
    Ok(())
}

fn rdt(requested: &IntelRdt) -> RdtChange {
    let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let on = |on: bool| on.then_some(true);
    RdtChange {
        clos_id: text(&requested.clos_id),
        l3_cache_schema: text(&requested.l3_cache_schema),
        mem_bw_schema: text(&requested.mem_bw_schema),
        schemata: Some(requested.schemata.clone()).filter(|lines| !lines.is_empty()),
        enable_monitoring: on(requested.enable_monitoring),
        enable_cmt: on(requested.enable_cmt),
        enable_mbm: on(requested.enable_mbm),
        ..RdtChange::default()
    }
}

//! CDI devices: passed by name to an engine that reads their specifications, and applied to the
//! rest of the plan for one that does not.

use super::{error::PlanError, mounts};
use crate::{
    model::{
        cdi::{CdiEdits, CdiMount},
        container::ContainerSpec,
        engine::EngineInfo,
    },
    wire::docker::{self, ContainerCreateBody, DeviceRequest, HostConfig},
};

/// Adds the CDI devices to the planned container.
pub(super) fn add(
    (body, host): (&mut ContainerCreateBody, &mut HostConfig),
    spec: &ContainerSpec,
    edits: Option<&CdiEdits>,
    engine: &EngineInfo,
) -> Result<(), PlanError> {
    let Some(first) = spec.cdi_devices.first() else { return Ok(()) };
    if let Some(edits) = edits {
        return apply(body, host, edits, engine);
    }
    if engine.cdi_spec_dirs.is_empty() {
        return Err(PlanError::NoCdi { device: first.clone() });
    }
    host.device_requests = Some(vec![DeviceRequest {
        driver: Some("cdi".to_owned()),
        device_ids: Some(spec.cdi_devices.clone()),
        ..DeviceRequest::default()
    }]);
    Ok(())
}

fn apply(
    body: &mut ContainerCreateBody,
    host: &mut HostConfig,
    edits: &CdiEdits,
    engine: &EngineInfo,
) -> Result<(), PlanError> {
    for (name, value) in &edits.env {
        set_variable(body.env.get_or_insert_default(), name, value);
    }
    for device in &edits.devices {
        add_device(host.devices.get_or_insert_default(), super::devices::mapping(device))?;
    }
    for mount in &edits.mounts {
        add_mount(host.mounts.get_or_insert_default(), bind(mount, engine)?)?;
    }
    for group in edits.groups.iter().map(ToString::to_string) {
        let groups = host.group_add.get_or_insert_default();
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    Ok(())
}

/// Replaces a variable of that name in its place: with two, programs would see the first. How many
/// come from the caller must not change, since their number tells them apart when they are read back.
fn set_variable(env: &mut Vec<String>, name: &str, value: &str) {
    let text = format!("{name}={value}");
    let mut is_set = false;
    for known in env.iter_mut().filter(|it| it.split_once('=').is_some_and(|(key, _)| key == name))
    {
        known.clone_from(&text);
        is_set = true;
    }
    if !is_set {
        env.push(text);
    }
}

/// Several devices may have the same node: the container gets all their permissions.
fn add_device(
    devices: &mut Vec<docker::DeviceMapping>,
    device: docker::DeviceMapping,
) -> Result<(), PlanError> {
    let same =
        |known: &&mut docker::DeviceMapping| known.path_in_container == device.path_in_container;
    match devices.iter_mut().find(same) {
        None => devices.push(device),
        Some(known) if known.path_on_host == device.path_on_host => {
            let granted = [known.cgroup_permissions.take(), device.cgroup_permissions];
            let granted = granted.into_iter().flatten().collect::<String>();
            known.cgroup_permissions =
                Some("rwm".chars().filter(|access| granted.contains(*access)).collect());
        }
        Some(known) => {
            let target = device.path_in_container.unwrap_or_default();
            let paths = [known.path_on_host.clone(), device.path_on_host];
            let [first, second] = paths.map(Option::unwrap_or_default);
            return Err(PlanError::CdiConflict { what: "node", target, first, second });
        }
    }
    Ok(())
}

/// Several devices may have the same mount, but not two mounts at one path.
fn add_mount(mounts: &mut Vec<docker::Mount>, mount: docker::Mount) -> Result<(), PlanError> {
    let target = mount.target.clone().unwrap_or_default();
    let same = |known: &&docker::Mount| {
        known.target.as_deref().is_some_and(|known| mounts::is_same_path(known, &target))
    };
    match mounts.iter().find(same) {
        None => mounts.push(mount),
        Some(known) if normalized(known) == normalized(&mount) => {}
        Some(known) => {
            let (first, second) = (description(known), description(&mount));
            return Err(PlanError::CdiConflict { what: "mount", target, first, second });
        }
    }
    Ok(())
}

/// The mount without its spelling, and without whether its source is made if missing.
fn normalized(mount: &docker::Mount) -> docker::Mount {
    let mut plain = docker::Mount { target: None, ..mount.clone() };
    if let Some(options) = &mut plain.bind_options {
        options.create_mountpoint = None;
    }
    plain
}

fn description(mount: &docker::Mount) -> String {
    let access = if mount.read_only == Some(true) { "read-only" } else { "writable" };
    format!("{} {access}", mount.source.as_deref().unwrap_or_default())
}

/// Unlike for other mounts, a missing source is not made: it would be a directory.
fn bind(requested: &CdiMount, engine: &EngineInfo) -> Result<docker::Mount, PlanError> {
    let mut mount = mounts::bind(&requested.mount, engine)?;
    if let Some(options) = &mut mount.bind_options {
        options.create_mountpoint = None;
        options.non_recursive = requested.non_recursive.then_some(true);
    }
    Ok(mount)
}

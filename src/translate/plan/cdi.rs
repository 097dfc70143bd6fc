//! CDI devices: named to an engine that reads their specification, laid over the rest of the plan
//! for one that does not.

use super::{error::PlanError, mounts};
use crate::{
    model::{
        cdi::{CdiEdits, CdiMount},
        container::ContainerSpec,
        engine::EngineInfo,
    },
    wire::docker::{self, ContainerCreateBody, DeviceRequest, HostConfig},
};

/// Gives a container its CDI devices; the rest of it is planned.
pub(super) fn grant(
    (body, host): (&mut ContainerCreateBody, &mut HostConfig),
    spec: &ContainerSpec,
    edits: Option<&CdiEdits>,
    engine: &EngineInfo,
) -> Result<(), PlanError> {
    let Some(first) = spec.cdi_devices.first() else { return Ok(()) };
    if let Some(edits) = edits {
        return lay_over(body, host, edits, engine);
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

fn lay_over(
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

/// The last one counts: with two of a name, programs would see the first.
fn set_variable(env: &mut Vec<String>, name: &str, value: &str) {
    env.retain(|known| known.split_once('=').is_none_or(|(key, _)| key != name));
    env.push(format!("{name}={value}"));
}

/// Several may well want the same node: together they get what each of them wants.
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
            return Err(PlanError::CdiClash { what: "node", target, first, second });
        }
    }
    Ok(())
}

/// Several may want the same mount, but not two at one place.
fn add_mount(mounts: &mut Vec<docker::Mount>, mount: docker::Mount) -> Result<(), PlanError> {
    let target = mount.target.clone().unwrap_or_default();
    let same = |known: &&docker::Mount| {
        known.target.as_deref().is_some_and(|known| mounts::same_place(known, &target))
    };
    match mounts.iter().find(same) {
        None => mounts.push(mount),
        Some(known) if does(known) == does(&mount) => {}
        Some(known) => {
            let (first, second) = (told(known), told(&mount));
            return Err(PlanError::CdiClash { what: "mount", target, first, second });
        }
    }
    Ok(())
}

/// What a mount does, however it is spelt; whether its source is made if missing is none of it.
fn does(mount: &docker::Mount) -> docker::Mount {
    let mut plain = docker::Mount { target: None, ..mount.clone() };
    if let Some(options) = &mut plain.bind_options {
        options.create_mountpoint = None;
    }
    plain
}

fn told(mount: &docker::Mount) -> String {
    let access = if mount.read_only == Some(true) { "read-only" } else { "writable" };
    format!("{} {access}", mount.source.as_deref().unwrap_or_default())
}

/// Unlike for other mounts, what is missing on the host is not made: it would be a directory.
fn bind(wanted: &CdiMount, engine: &EngineInfo) -> Result<docker::Mount, PlanError> {
    let mut mount = mounts::bind(&wanted.mount, engine)?;
    if let Some(options) = &mut mount.bind_options {
        options.create_mountpoint = None;
        options.non_recursive = wanted.alone.then_some(true);
    }
    Ok(mount)
}

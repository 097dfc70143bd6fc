//! Puts edits into fields of the create request: environment, groups, devices and bind mounts.

use serde_json::Value;

use super::{mounts, read_only};
use crate::{
    error::Failure,
    model::{
        container::{ContainerSpec, Device, Mount, Propagation},
        engine::EngineInfo,
        resources::first_set,
        spec_edit::{IGNORED_OPTIONS, SpecEdit},
    },
    wire::docker::{self, ContainerCreateBody, DeviceMapping, HostConfig},
};

/// Whether the Engine API has a field for the edit.
///
/// # Errors
/// Fails with the name of a field that the Engine API does not have.
pub fn check(edit: &SpecEdit) -> Result<(), String> {
    field(edit).map(drop)
}

/// The groups that the edits add to the container's process.
pub(super) fn groups(edits: &[SpecEdit]) -> Vec<u32> {
    let all = edits.iter().filter_map(|edit| match field(edit) {
        Ok(Field::Groups(groups)) => Some(groups),
        _ => None,
    });
    all.flatten().filter_map(|group| u32::try_from(group.as_u64()?).ok()).collect()
}

/// Puts edits into the create request, and returns the remaining edits for dockbridge-runtime. Values of variables
/// and added groups always go to the engine, because exec commands also get them from the engine.
///
/// # Errors
/// Without dockbridge-runtime, fails if different mounts or devices have the same path in the container, or if the
/// engine cannot do what a mount requests.
pub(super) fn apply_edits(
    (body, host): (&mut ContainerCreateBody, &mut HostConfig),
    edits: &[SpecEdit],
    engine: &EngineInfo,
    handler: &str,
) -> Result<Vec<SpecEdit>, Failure> {
    let (has_oci_runtime, mut rest) = (engine.edits_runtime(handler).is_ok(), Vec::new());
    for edit in edits {
        match field(edit) {
            Ok(Field::Variable(name, value)) => {
                set_variable(body.env.get_or_insert_default(), name, value);
            }
            Ok(Field::Groups(groups)) => {
                add_groups(host.group_add.get_or_insert_default(), groups);
            }
            Ok(Field::Device(device)) if !has_oci_runtime => {
                add_device(host.devices.get_or_insert_default(), device_mapping(&device))?;
            }
            Ok(Field::Bind(mount, is_recursive)) if !has_oci_runtime => {
                read_only::check([&mount], handler, engine)?;
                let mount = bind(&mount, is_recursive, engine)?;
                add_mount(host.mounts.get_or_insert_default(), mount)?;
            }
            _ => {
                // Without dockbridge-runtime, an earlier check has refused such edits.
                debug_assert!(has_oci_runtime, "{edit:?}");
                rest.push(edit.clone());
            }
        }
    }
    Ok(rest)
}

/// The field of the Engine API for an edit.
enum Field<'a> {
    Variable(&'a str, &'a str),
    Groups(&'a [Value]),
    Device(Device),
    /// A bind mount, and whether it includes the mounts below its source.
    Bind(Mount, bool),
}

fn field(edit: &SpecEdit) -> Result<Field<'_>, String> {
    let keys = edit.keys();
    match (edit, keys.as_slice()) {
        (SpecEdit::Set { value: Value::String(value), .. }, ["process", "env", name]) => {
            Ok(Field::Variable(name, value))
        }
        (SpecEdit::Add { values, .. }, ["process", "user", "additionalGids"]) => {
            Ok(Field::Groups(values))
        }
        (SpecEdit::Set { value, .. }, ["linux", "devices", path]) => {
            let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
            Ok(Field::Device(Device {
                container_path: (*path).to_owned(),
                host_path: text("hostPath").ok_or_else(|| edit.name())?,
                permissions: text("access").unwrap_or_default(),
            }))
        }
        (SpecEdit::Set { value, .. }, ["mounts", path]) => {
            bind_field(path, value).map_err(|what| format!("{} ({what})", edit.name()))
        }
        _ => Err(edit.name()),
    }
}

fn bind_field(path: &str, mount: &Value) -> Result<Field<'static>, String> {
    let text = |key: &str| mount.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("type") != "bind" {
        return Err(format!("type {}", text("type")));
    }
    let mut bind = Mount {
        container_path: path.to_owned(),
        host_path: text("source").to_owned(),
        ..Mount::default()
    };
    let mut is_recursive = true;
    let options = mount.get("options").and_then(Value::as_array).into_iter().flatten();
    for option in options.map(|option| option.as_str().unwrap_or_default()) {
        match option {
            "ro" => bind.readonly = true,
            "rro" => (bind.readonly, bind.recursive_read_only) = (true, true),
            "rw" => (bind.readonly, bind.recursive_read_only) = (false, false),
            "bind" => is_recursive = false,
            "rbind" => is_recursive = true,
            "private" | "rprivate" => bind.propagation = Propagation::Private,
            "slave" | "rslave" => bind.propagation = Propagation::HostToContainer,
            "shared" | "rshared" => bind.propagation = Propagation::Bidirectional,
            // The options `defaults`, `suid`, `dev` and `exec` are the defaults of a bind mount.
            "defaults" | "suid" | "dev" | "exec" => {}
            option if IGNORED_OPTIONS.contains(&option) => {}
            option => return Err(format!("option {option}")),
        }
    }
    Ok(Field::Bind(bind, is_recursive))
}

fn add_groups(groups: &mut Vec<String>, added: &[Value]) {
    for group in added.iter().map(ToString::to_string) {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
}

/// Sets a variable. Replaces an existing variable in its place, because programs would use the first of two.
/// The requested variables must stay the first ones in the list, and their number must not change: `observe` uses
/// the number to separate them from the variables of edits and of the image.
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

/// Adds a device. If the container already has the device at this path, combines the permissions.
fn add_device(
    devices: &mut Vec<docker::DeviceMapping>,
    device: docker::DeviceMapping,
) -> Result<(), Failure> {
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
            return Err(conflict("node", &target, paths.map(Option::unwrap_or_default)));
        }
    }
    Ok(())
}

/// Adds a mount, unless it is already there. Fails if a different mount has the same path in the container.
fn add_mount(mounts: &mut Vec<docker::Mount>, mount: docker::Mount) -> Result<(), Failure> {
    let target = mount.target.clone().unwrap_or_default();
    let same = |known: &&docker::Mount| {
        known.target.as_deref().is_some_and(|known| mounts::is_same_path(known, &target))
    };
    match mounts.iter().find(same) {
        None => mounts.push(mount),
        Some(known) if normalized(known) == normalized(&mount) => {}
        Some(known) => {
            return Err(conflict("mount", &target, [description(known), description(&mount)]));
        }
    }
    Ok(())
}

fn conflict(what: &str, target: &str, [first, second]: [String; 2]) -> Failure {
    Failure::invalid(format!(
        "the CDI device's {what} at {target:?} (host path {second}) conflicts with the {what} of \
         host path {first}"
    ))
}

/// The mount in a form for comparisons: without the path in the container and the option to create a missing source.
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

/// A bind mount of a CDI device, without the option to create a missing source.
fn bind(
    requested: &Mount,
    is_recursive: bool,
    engine: &EngineInfo,
) -> Result<docker::Mount, Failure> {
    let mut mount = mounts::bind(requested, engine)?;
    if let Some(options) = &mut mount.bind_options {
        options.create_mountpoint = None;
        options.non_recursive = (!is_recursive).then_some(true);
    }
    Ok(mount)
}

pub(super) fn add_devices(host: &mut HostConfig, spec: &ContainerSpec) {
    if !spec.devices.is_empty() {
        host.devices = Some(spec.devices.iter().map(device_mapping).collect());
    }
}

fn device_mapping(device: &Device) -> DeviceMapping {
    DeviceMapping {
        path_on_host: Some(device.host_path.clone()),
        path_in_container: Some(first_set(&device.container_path, &device.host_path)),
        cgroup_permissions: Some(first_set(&device.permissions, "rwm")),
    }
}

//! The container edits of CDI devices that the Engine API has fields for: environment, device nodes, mounts,
//! groups.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use tracing::info;

use super::{
    device_index::{DeviceIndex, IndexedDevice},
    device_node,
    error::{CdiError, EditError},
    specification::{self, Edits},
};
use crate::{
    host::error::HostError,
    model::{
        cdi::{CdiEdits, CdiMount},
        container::Mount,
    },
};

/// The edits of all devices together, for an engine without our OCI runtime.
pub(super) fn collect(index: &DeviceIndex, devices: &[String]) -> Result<CdiEdits, CdiError> {
    let mut edits = CdiEdits::default();
    each(index, devices, |device, requested| {
        add(&mut edits, requested)?;
        log_ignored_options(device, requested);
        Ok(())
    })?;
    Ok(edits)
}

/// Calls `add` with the edits of each device; those that all devices of a file share come once.
pub(super) fn each(
    index: &DeviceIndex,
    devices: &[String],
    mut add: impl FnMut(&str, &Edits) -> Result<(), EditError>,
) -> Result<(), CdiError> {
    let mut common: Vec<&Arc<_>> = Vec::new();
    for (position, device) in devices.iter().enumerate() {
        if devices.iter().take(position).any(|earlier| earlier == device) {
            continue;
        }
        let entry = index.find(device)?;
        let IndexedDevice { file, specification, index, .. } = entry;
        let own = specification.devices.get(*index).map(|device| &device.container_edits);
        let refused = |problem| {
            let (device, file, problem) = (device.clone(), file.clone(), Arc::new(problem));
            CdiError::Unusable { device, file, problem }
        };
        if !common.iter().any(|known| Arc::ptr_eq(known, specification)) {
            common.push(specification);
            add(device, &specification.container_edits).map_err(refused)?;
        }
        if let Some(own) = own {
            add(device, own).map_err(refused)?;
        }
    }
    Ok(())
}

/// Mount options that every vendor writes and the Engine API has no field for: a bind keeps those of
/// its source on the host.
const IGNORED_OPTIONS: [&str; 3] = ["nosuid", "nodev", "noexec"];

fn log_ignored_options(device: &str, edits: &Edits) {
    let options = edits.mounts.iter().flat_map(|mount| &mount.options);
    let ignored: BTreeSet<&String> =
        options.filter(|option| IGNORED_OPTIONS.contains(&option.as_str())).collect();
    if !ignored.is_empty() {
        info!(device, options = ?ignored, "mount options of a CDI device are ignored; its mounts keep those of their sources on the host");
    }
}

pub(super) fn add(edits: &mut CdiEdits, requested: &Edits) -> Result<(), EditError> {
    for (what, is_set) in [
        ("hooks", !requested.hooks.is_empty()),
        ("netDevices", !requested.net_devices.is_empty()),
        ("intelRdt", requested.intel_rdt.is_some()),
    ] {
        if is_set {
            return Err(EditError::Engine { what });
        }
    }
    for text in &requested.env {
        edits.env.push(variable(text)?);
    }
    for requested in &requested.device_nodes {
        edits.devices.push(device_node::device(requested)?);
    }
    for requested in &requested.mounts {
        edits.mounts.push(mount(requested)?);
    }
    // The specification: 0 is ignored.
    edits.groups.extend(requested.additional_gids.iter().filter(|group| **group != 0));
    Ok(())
}

pub(super) fn variable(text: &str) -> Result<(String, String), EditError> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty() && !text.contains('\0'));
    let (name, value) = pair.ok_or_else(|| EditError::Variable { text: text.to_owned() })?;
    Ok((name.to_owned(), value.to_owned()))
}

fn mount(requested: &specification::Mount) -> Result<CdiMount, EditError> {
    let target = &requested.container_path;
    for path in [&requested.host_path, target] {
        if !path.starts_with('/') {
            return Err(EditError::Relative { path: path.clone() });
        }
    }
    if !matches!(requested.kind.as_str(), "" | "bind" | "none") {
        let kind = requested.kind.clone();
        return Err(EditError::MountType { target: target.clone(), kind });
    }
    let mut edit = CdiMount {
        mount: Mount {
            container_path: target.clone(),
            host_path: requested.host_path.clone(),
            ..Mount::default()
        },
        non_recursive: false,
    };
    for option in &requested.options {
        if !edit.apply(option) && !IGNORED_OPTIONS.contains(&option.as_str()) {
            let option = option.clone();
            return Err(EditError::MountOption { target: target.clone(), option });
        }
    }
    let source = Path::new(&requested.host_path);
    fs::metadata(source).map_err(|e| EditError::from(HostError::new("mount", source, e)))?;
    Ok(edit)
}

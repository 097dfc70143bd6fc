//! From descriptions to what a container is asked to be.

use std::{fs, path::Path, sync::Arc};

use tracing::debug;

use super::{
    catalogue::{Catalogue, Entry},
    error::{CdiError, Obstacle},
    node,
    specification::{self, Edits},
};
use crate::{
    host::error::HostError,
    model::{
        cdi::{CdiEdits, CdiMount},
        container::{Mount, Propagation},
    },
};

/// What the devices come to together. What all devices of a file have in common comes once.
pub(super) fn collect(catalogue: &Catalogue, devices: &[String]) -> Result<CdiEdits, CdiError> {
    let mut edits = CdiEdits::default();
    let mut common: Vec<&Arc<_>> = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        if devices.iter().take(index).any(|earlier| earlier == device) {
            continue;
        }
        let entry = catalogue.find(device)?;
        let Entry { file, specification, index, .. } = entry;
        let refused = |obstacle| {
            let (device, file, obstacle) = (device.clone(), file.clone(), Arc::new(obstacle));
            CdiError::Unusable { device, file, obstacle }
        };
        if !common.iter().any(|known| Arc::ptr_eq(known, specification)) {
            common.push(specification);
            add(&mut edits, &specification.container_edits).map_err(refused)?;
        }
        if let Some(device) = specification.devices.get(*index) {
            add(&mut edits, &device.container_edits).map_err(refused)?;
        }
    }
    Ok(edits)
}

fn add(edits: &mut CdiEdits, wanted: &Edits) -> Result<(), Obstacle> {
    for (what, there) in [
        ("hooks", !wanted.hooks.is_empty()),
        ("netDevices", !wanted.net_devices.is_empty()),
        ("intelRdt", wanted.intel_rdt.is_some()),
    ] {
        if there {
            return Err(Obstacle::Engine { what });
        }
    }
    for text in &wanted.env {
        edits.env.push(variable(text)?);
    }
    for wanted in &wanted.device_nodes {
        edits.devices.push(node::device(wanted)?);
    }
    for wanted in &wanted.mounts {
        edits.mounts.push(mount(wanted)?);
    }
    // The specification: 0 is ignored.
    edits.groups.extend(wanted.additional_gids.iter().filter(|group| **group != 0));
    Ok(())
}

fn variable(text: &str) -> Result<(String, String), Obstacle> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty() && !text.contains('\0'));
    let (name, value) = pair.ok_or_else(|| Obstacle::Variable { text: text.to_owned() })?;
    Ok((name.to_owned(), value.to_owned()))
}

fn mount(wanted: &specification::Mount) -> Result<CdiMount, Obstacle> {
    let target = &wanted.container_path;
    for path in [&wanted.host_path, target] {
        if !path.starts_with('/') {
            return Err(Obstacle::Relative { path: path.clone() });
        }
    }
    if !matches!(wanted.kind.as_str(), "" | "bind" | "none") {
        let kind = wanted.kind.clone();
        return Err(Obstacle::MountType { target: target.clone(), kind });
    }
    let mut edit = CdiMount {
        mount: Mount {
            container_path: target.clone(),
            host_path: wanted.host_path.clone(),
            ..Mount::default()
        },
        alone: false,
    };
    for option in &wanted.options {
        if !apply(&mut edit, option) {
            let option = option.clone();
            return Err(Obstacle::MountOption { target: target.clone(), option });
        }
    }
    let place = Path::new(&wanted.host_path);
    fs::metadata(place).map_err(|e| Obstacle::from(HostError::new("mount", place, e)))?;
    Ok(edit)
}

/// Whether the option could be honoured.
fn apply(edit: &mut CdiMount, option: &str) -> bool {
    let mount = &mut edit.mount;
    match option {
        "ro" => mount.readonly = true,
        "rro" => (mount.readonly, mount.recursive_read_only) = (true, true),
        "rw" => (mount.readonly, mount.recursive_read_only) = (false, false),
        "bind" => edit.alone = true,
        "rbind" => edit.alone = false,
        "private" | "rprivate" => mount.propagation = Propagation::Private,
        "slave" | "rslave" => mount.propagation = Propagation::HostToContainer,
        "shared" | "rshared" => mount.propagation = Propagation::Bidirectional,
        // What a bind is anyway.
        "defaults" | "suid" | "dev" | "exec" => {}
        // Every vendor writes them, and the engine has no word for them: a bind keeps the
        // options its source has on the host.
        "nosuid" | "nodev" | "noexec" => {
            let (option, target) = (option, &mount.container_path);
            debug!(option, target, "a CDI mount keeps what its source has instead of the option");
        }
        _ => return false,
    }
    true
}

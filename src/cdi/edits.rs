//! From descriptions to what a container is asked to be.

use std::{collections::BTreeSet, fs, iter, path::Path, sync::Arc};

use tracing::info;

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
        let own = specification.devices.get(*index).map(|device| &device.container_edits);
        let refused = |obstacle| {
            let (device, file, obstacle) = (device.clone(), file.clone(), Arc::new(obstacle));
            CdiError::Unusable { device, file, obstacle }
        };
        if !common.iter().any(|known| Arc::ptr_eq(known, specification)) {
            common.push(specification);
            add(&mut edits, &specification.container_edits).map_err(refused)?;
        }
        if let Some(own) = own {
            add(&mut edits, own).map_err(refused)?;
        }
        tell_of_wordless(device, iter::once(&specification.container_edits).chain(own));
    }
    Ok(edits)
}

/// Options of mounts that every vendor writes and the engine has no word for: a bind keeps those
/// its source has on the host.
const WORDLESS: [&str; 3] = ["nosuid", "nodev", "noexec"];

fn tell_of_wordless<'a>(device: &str, edits: impl Iterator<Item = &'a Edits>) {
    let options = edits.flat_map(|edits| &edits.mounts).flat_map(|mount| &mount.options);
    let wordless: BTreeSet<&String> =
        options.filter(|option| WORDLESS.contains(&option.as_str())).collect();
    if !wordless.is_empty() {
        info!(device, options = ?wordless, "mounts of a CDI device keep what their sources have");
    }
}

pub(super) fn add(edits: &mut CdiEdits, wanted: &Edits) -> Result<(), Obstacle> {
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
        non_recursive: false,
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
        "bind" => edit.non_recursive = true,
        "rbind" => edit.non_recursive = false,
        "private" | "rprivate" => mount.propagation = Propagation::Private,
        "slave" | "rslave" => mount.propagation = Propagation::HostToContainer,
        "shared" | "rshared" => mount.propagation = Propagation::Bidirectional,
        // What a bind is anyway.
        "defaults" | "suid" | "dev" | "exec" => {}
        option => return WORDLESS.contains(&option),
    }
    true
}

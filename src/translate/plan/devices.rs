//! Devices of the host.

use crate::{
    model::container::{ContainerSpec, Device},
    wire::docker::{DeviceMapping, HostConfig},
};

/// Gives a container its devices.
pub(super) fn grant(host: &mut HostConfig, spec: &ContainerSpec) {
    if !spec.devices.is_empty() {
        host.devices = Some(spec.devices.iter().map(mapping).collect());
    }
}

/// One device in the engine's words.
pub(super) fn mapping(device: &Device) -> DeviceMapping {
    DeviceMapping {
        path_on_host: Some(device.host_path.clone()),
        path_in_container: Some(first_stated(&device.container_path, &device.host_path)),
        cgroup_permissions: Some(first_stated(&device.permissions, "rwm")),
    }
}

fn first_stated(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text.to_owned() }
}

//! Devices of the host.

use crate::{
    model::container::{ContainerSpec, Device},
    wire::docker::{DeviceMapping, HostConfig},
};

pub(super) fn add(host: &mut HostConfig, spec: &ContainerSpec) {
    if !spec.devices.is_empty() {
        host.devices = Some(spec.devices.iter().map(mapping).collect());
    }
}

pub(super) fn mapping(device: &Device) -> DeviceMapping {
    DeviceMapping {
        path_on_host: Some(device.host_path.clone()),
        path_in_container: Some(first_non_empty(&device.container_path, &device.host_path)),
        cgroup_permissions: Some(first_non_empty(&device.permissions, "rwm")),
    }
}

fn first_non_empty(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text.to_owned() }
}

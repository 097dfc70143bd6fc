//! Devices of the host, and devices that a CDI specification describes.

use super::error::PlanError;
use crate::{
    model::{
        container::{ContainerSpec, Device},
        engine::EngineInfo,
    },
    wire::docker::{DeviceMapping, DeviceRequest, HostConfig},
};

/// Gives a container its devices.
pub(super) fn grant(
    host: &mut HostConfig,
    spec: &ContainerSpec,
    engine: &EngineInfo,
) -> Result<(), PlanError> {
    if !spec.devices.is_empty() {
        host.devices = Some(spec.devices.iter().map(mapping).collect());
    }
    if let Some(first) = spec.cdi_devices.first() {
        if engine.cdi_spec_dirs.is_empty() {
            return Err(PlanError::NoCdi { device: first.clone() });
        }
        host.device_requests = Some(vec![DeviceRequest {
            driver: Some("cdi".to_owned()),
            device_ids: Some(spec.cdi_devices.clone()),
            ..DeviceRequest::default()
        }]);
    }
    Ok(())
}

fn mapping(device: &Device) -> DeviceMapping {
    DeviceMapping {
        path_on_host: Some(device.host_path.clone()),
        path_in_container: Some(first_stated(&device.container_path, &device.host_path)),
        cgroup_permissions: Some(first_stated(&device.permissions, "rwm")),
    }
}

fn first_stated(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text.to_owned() }
}

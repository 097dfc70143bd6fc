//! Published ports, if the engine publishes them.

use std::collections::HashMap;

use crate::{model::network::PortMapping, wire::docker::PortBinding};

/// `80/tcp` for each port with a host port, and the address and port on the host.
pub(super) struct Ports {
    /// `ExposedPorts`: the engine publishes only exposed ports.
    pub(super) exposed: Vec<String>,
    /// `PortBindings`.
    pub(super) bindings: HashMap<String, Option<Vec<PortBinding>>>,
}

pub(super) fn published(ports: &[PortMapping]) -> Ports {
    let mut bindings: HashMap<String, Option<Vec<PortBinding>>> = HashMap::new();
    for port in ports.iter().filter(|port| port.host_port != 0) {
        let key = format!("{}/{}", port.container_port, port.protocol.as_str());
        bindings.entry(key).or_default().get_or_insert_default().push(PortBinding {
            host_ip: Some(port.host_ip.clone()),
            host_port: Some(port.host_port.to_string()),
        });
    }
    let mut exposed: Vec<String> = bindings.keys().cloned().collect();
    exposed.sort();
    Ports { exposed, bindings }
}

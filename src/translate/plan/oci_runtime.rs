//! Selects dockbridge-runtime for a container, and refuses requests that need it if it cannot be used.

use super::capabilities;
use crate::{
    error::Failure,
    model::{
        container::ContainerSpec,
        document::{ContainerDocument, SandboxDocument},
        engine::EngineInfo,
        network::NetworkMode,
        oci_edits::{REQUIRED_ANNOTATION, RUNTIME},
    },
    wire::docker::HostConfig,
};

/// Refuses a user namespace that the engine does not support, or in a pod with Docker's network.
pub(super) fn check_sandbox(
    document: &SandboxDocument,
    engine: &EngineInfo,
) -> Result<(), Failure> {
    if document.spec.namespaces.users.is_none() {
        return Ok(());
    }
    let refused = |reason| Failure::unsupported(USERS, reason);
    engine.maps_users(&document.spec.handler).map_err(refused)?;
    match document.network {
        NetworkMode::Cni | NetworkMode::Host => Ok(()),
        NetworkMode::Docker => Err(refused(
            "needs CNI (--network cni): with Docker's network, the engine creates the network namespace",
        )),
    }
}

/// Refuses a container that needs dockbridge-runtime if the engine cannot run it with dockbridge-runtime. Also refuses
/// a user namespace other than the pod's, and a start from a container checkpoint in a pod with a user namespace.
pub(super) fn check_container(
    document: &ContainerDocument,
    pod: &SandboxDocument,
    engine: &EngineInfo,
) -> Result<(), Failure> {
    let spec = &document.spec;
    if spec.users != pod.spec.namespaces.users {
        let pod = match pod.spec.namespaces.users {
            Some(_) => "a user namespace with the pod's id mappings",
            None => "the host's user namespace",
        };
        let field = "config.linux.security_context.namespace_options.userns_options";
        return Err(Failure::invalid(format!("{field}: must be the same as the pod's: {pod}")));
    }
    let handler = &pod.spec.handler;
    if spec.users.is_some() {
        let refused = |reason| Failure::unsupported(USERS, reason);
        engine.maps_users(handler).map_err(refused)?;
    }
    if document.restore.is_some() {
        let refused = |reason| {
            Failure::unmet(format!(
                "the container cannot start from a container checkpoint: {reason}"
            ))
        };
        engine.edits_runtime(handler).map_err(refused)?;
        if spec.users.is_some() {
            return Err(refused("the pod has a user namespace"));
        }
    }
    let Some(field) = field(spec) else { return Ok(()) };
    engine.edits_runtime(handler).map_err(|reason| Failure::unsupported(&field, reason))
}

/// Selects dockbridge-runtime, and adds the annotation that makes it refuse a start without edits.
pub(super) fn use_ours(host: &mut HostConfig) {
    host.runtime = Some(RUNTIME.to_owned());
    let annotations = host.annotations.get_or_insert_default();
    annotations.insert(REQUIRED_ANNOTATION.to_owned(), "1".to_owned());
}

/// The first field of the request that only dockbridge-runtime supports.
fn field(spec: &ContainerSpec) -> Option<String> {
    if !capabilities::ambient(&spec.security.capabilities).is_empty() {
        return Some(AMBIENT.to_owned());
    }
    spec.mounts.iter().enumerate().find_map(|(at, mount)| {
        let field = match (mount.id_mappings.is_some(), mount.options.is_empty()) {
            (true, _) => "uidMappings",
            (false, false) => "mount_options",
            (false, true) => return None,
        };
        Some(format!("config.mounts[{at}].{field}"))
    })
}

const USERS: &str = "config.linux.security_context.namespace_options.userns_options.mode";
const AMBIENT: &str = "config.linux.security_context.capabilities.add_ambient_capabilities";

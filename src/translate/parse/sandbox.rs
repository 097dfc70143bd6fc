//! RunPodSandbox: `PodSandboxConfig`.

use std::{collections::BTreeMap, path::PathBuf};

use super::{
    error::{At, ParseError},
    network, security, text,
};
use crate::{
    model::{
        network::DnsConfig,
        sandbox::{PodMetadata, SandboxSpec},
    },
    translate::limits,
    wire::cri,
};

/// Reads a sandbox's configuration and its runtime handler.
///
/// # Errors
/// Names the first field that is malformed.
pub fn sandbox_spec(
    config: Option<&cri::PodSandboxConfig>,
    handler: &str,
) -> Result<SandboxSpec, ParseError> {
    let config = config.ok_or_else(ParseError::missing).at("config")?;
    let handler = text::line(handler).at("runtime_handler")?;
    spec(config, handler).at("config")
}

/// DNS settings of the pod in a container's request.
///
/// # Errors
/// Names the first field that is malformed.
pub fn dns(config: Option<&cri::PodSandboxConfig>) -> Result<Option<DnsConfig>, ParseError> {
    let dns = config.and_then(|config| config.dns_config.as_ref());
    dns.map(network::dns).transpose().at("dns_config").at("sandbox_config")
}

/// The directory of a pod's logs. None if the caller sets none.
pub(super) fn log_directory(config: &cri::PodSandboxConfig) -> Result<Option<PathBuf>, ParseError> {
    match config.log_directory.as_str() {
        "" => Ok(None),
        directory => text::path(directory).map(|path| Some(path.into())).at("log_directory"),
    }
}

fn spec(config: &cri::PodSandboxConfig, handler: String) -> Result<SandboxSpec, ParseError> {
    let none = cri::LinuxPodSandboxConfig::default();
    let linux = config.linux.as_ref().unwrap_or(&none);
    let mut spec = SandboxSpec {
        metadata: metadata(config.metadata.as_ref()).at("metadata")?,
        hostname: network::hostname(&config.hostname).at("hostname")?,
        log_directory: log_directory(config)?,
        dns: config.dns_config.as_ref().map(network::dns).transpose().at("dns_config")?,
        labels: text::pairs(&config.labels).at("labels")?,
        annotations: text::annotations(&config.annotations).at("annotations")?,
        cgroup_parent: cgroup_parent(&linux.cgroup_parent).at("linux.cgroup_parent")?,
        sysctls: sysctls(&linux.sysctls).at("linux.sysctls")?,
        overhead: limits(linux.overhead.as_ref()).at("linux.overhead")?,
        resources: limits(linux.resources.as_ref()).at("linux.resources")?,
        handler,
        ..SandboxSpec::default()
    };
    if let Some(context) = &linux.security_context {
        confine(&mut spec, context).at("linux.security_context")?;
    }
    let port = |given: &_| network::port(given, spec.namespaces.host_network);
    spec.ports = text::each(&config.port_mappings, port).at("port_mappings")?;
    Ok(spec)
}

fn confine(
    spec: &mut SandboxSpec,
    context: &cri::LinuxSandboxSecurityContext,
) -> Result<(), ParseError> {
    spec.security = security::sandbox(context)?;
    if let Some(options) = &context.namespace_options {
        spec.namespaces = security::sandbox_namespaces(options).at("namespace_options")?;
    }
    Ok(())
}

fn metadata(given: Option<&cri::PodSandboxMetadata>) -> Result<PodMetadata, ParseError> {
    let given = given.ok_or_else(ParseError::missing)?;
    Ok(PodMetadata {
        name: text::name(&given.name).at("name")?,
        namespace: text::name(&given.namespace).at("namespace")?,
        uid: text::name(&given.uid).at("uid")?,
        attempt: given.attempt,
    })
}

/// A cgroup path or a systemd slice. `plan` checks which one the engine needs.
fn cgroup_parent(parent: &str) -> Result<String, ParseError> {
    text::no_parent(parent)?;
    text::line(parent)
}

fn sysctls(given: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ParseError> {
    let pairs = text::pairs(given)?;
    for key in pairs.keys() {
        let parts = key.split(['.', '/']).all(|part| !part.is_empty());
        if !parts || !key.bytes().all(|b| b.is_ascii_graphic() && b != b'=') {
            let reason = format!("is not a kernel parameter: {}", text::quoted(key));
            return Err(ParseError::invalid(reason));
        }
    }
    Ok(pairs)
}

fn limits(
    given: Option<&cri::LinuxContainerResources>,
) -> Result<Option<crate::model::resources::Resources>, ParseError> {
    given.map(limits::cri::resources).transpose()
}

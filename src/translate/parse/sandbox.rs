//! Parses `PodSandboxConfig` and the runtime handler of RunPodSandbox, and the pod CIDRs of UpdateRuntimeConfig.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use super::{
    error::{At, ParseError},
    security, text,
};
use crate::{
    model::{
        network::{DnsConfig, PortMapping, Protocol, is_cidr},
        sandbox::{PodMetadata, SandboxSpec},
    },
    translate::limits,
    wire::cri,
};

/// Reads a sandbox's configuration and its runtime handler.
pub fn sandbox_spec(
    config: Option<&cri::PodSandboxConfig>,
    handler: &str,
) -> Result<SandboxSpec, ParseError> {
    let config = config.ok_or_else(ParseError::missing).at("config")?;
    let handler = text::line(handler).at("runtime_handler")?;
    spec(config, handler).at("config")
}

/// The pod's DNS settings in a CreateContainer request.
pub fn dns(config: Option<&cri::PodSandboxConfig>) -> Result<Option<DnsConfig>, ParseError> {
    let given = config.and_then(|config| config.dns_config.as_ref());
    given.map(dns_config).transpose().at("dns_config").at("sandbox_config")
}

/// The directory of a pod's logs. `None` if the request names no directory.
pub(super) fn log_directory(config: &cri::PodSandboxConfig) -> Result<Option<PathBuf>, ParseError> {
    match config.log_directory.as_str() {
        "" => Ok(None),
        directory => text::path(directory).map(|path| Some(path.into())).at("log_directory"),
    }
}

fn spec(config: &cri::PodSandboxConfig, handler: String) -> Result<SandboxSpec, ParseError> {
    let none = cri::LinuxPodSandboxConfig::default();
    let linux = config.linux.as_ref().unwrap_or(&none);
    let limits = |given: &Option<cri::LinuxContainerResources>| {
        given.as_ref().map(limits::cri::resources).transpose()
    };
    let mut spec = SandboxSpec {
        metadata: metadata(config.metadata.as_ref()).at("metadata")?,
        hostname: hostname(&config.hostname).at("hostname")?,
        log_directory: log_directory(config)?,
        dns: config.dns_config.as_ref().map(dns_config).transpose().at("dns_config")?,
        labels: text::pairs(&config.labels).at("labels")?,
        annotations: text::annotations(&config.annotations).at("annotations")?,
        cgroup_parent: cgroup_parent(&linux.cgroup_parent).at("linux.cgroup_parent")?,
        sysctls: sysctls(&linux.sysctls).at("linux.sysctls")?,
        overhead: limits(&linux.overhead).at("linux.overhead")?,
        resources: limits(&linux.resources).at("linux.resources")?,
        handler,
        ..SandboxSpec::default()
    };
    if let Some(context) = &linux.security_context {
        confine(&mut spec, context).at("linux.security_context")?;
    }
    let host_network = spec.namespaces.host_network;
    spec.ports =
        text::each(&config.port_mappings, |given| port(given, host_network)).at("port_mappings")?;
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

/// The pod's cgroup parent: a cgroup path or a systemd slice. `plan` checks that it fits the cgroup driver.
fn cgroup_parent(parent: &str) -> Result<String, ParseError> {
    text::no_parent(parent)?;
    text::line(parent)
}

fn sysctls(given: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ParseError> {
    let pairs = text::pairs(given)?;
    for key in pairs.keys() {
        let parts = key.split(['.', '/']).all(|part| !part.is_empty());
        let valid = parts && key.bytes().all(|b| b.is_ascii_graphic() && b != b'=');
        text::checked(valid, "is not a valid name of a kernel parameter", key)?;
    }
    Ok(pairs)
}

/// Parses the node's pod CIDRs, which are separated by commas. An empty text means none.
pub fn pod_cidrs(text: &str) -> Result<Vec<String>, ParseError> {
    let field = "runtime_config.network_config.pod_cidr";
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let are_few = text.split(',').nth(MAX_CIDRS).is_none();
    ParseError::unless(are_few, format!("has more than {MAX_CIDRS} ranges")).at(field)?;
    let cidr = |range: &str| text::checked(is_cidr(range), "is not a CIDR", range);
    text.split(',').map(|range| cidr(range.trim())).collect::<Result<_, _>>().at(field)
}

/// Checks a host name, which may have up to 64 bytes. A host name may end with a dot: kubelet sends such a name for
/// `setHostnameAsFQDN` with a subdomain if the node has no cluster domain. A part between dots may be longer than in
/// DNS, because Kubernetes limits only the length of the whole `hostnameOverride`.
fn hostname(name: &str) -> Result<String, ParseError> {
    let labels = name.strip_suffix('.').unwrap_or(name);
    let valid = name.len() <= MAX_HOSTNAME && labels.split('.').all(is_label);
    text::checked(name.is_empty() || valid, "is not a host name of at most 64 bytes", name)
}

/// Reads DNS settings. Refuses line breaks, because each value becomes part of a line of `resolv.conf`.
fn dns_config(given: &cri::DnsConfig) -> Result<DnsConfig, ParseError> {
    let words = |items: &[String]| text::each(items, |item| text::word(item));
    Ok(DnsConfig {
        servers: words(&given.servers).at("servers")?,
        searches: words(&given.searches).at("searches")?,
        options: text::each(&given.options, |option| text::line(option)).at("options")?,
    })
}

fn port(given: &cri::PortMapping, host_network: bool) -> Result<PortMapping, ParseError> {
    let container_port = port_number(given.container_port).at("container_port")?;
    let host_port = port_number(given.host_port).at("host_port")?;
    if host_port != 0 && container_port == 0 {
        return Err(ParseError::missing()).at("container_port");
    }
    let host_ip = match host_ip(&given.host_ip) {
        // Kubernetes does not validate the host IP. dockbridge uses it only to publish a port of a pod that does not
        // use the host's network.
        Err(_) if host_network || host_port == 0 => String::new(),
        read => read.at("host_ip")?,
    };
    let protocol = protocol(given.protocol).at("protocol")?;
    Ok(PortMapping { protocol, container_port, host_port, host_ip })
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn port_number(number: i32) -> Result<u16, ParseError> {
    u16::try_from(number).map_err(|_| ParseError::invalid(format!("is not a port: {number}")))
}

fn protocol(number: i32) -> Result<Protocol, ParseError> {
    match cri::Protocol::try_from(number) {
        Ok(cri::Protocol::Tcp) => Ok(Protocol::Tcp),
        Ok(cri::Protocol::Udp) => Ok(Protocol::Udp),
        Ok(cri::Protocol::Sctp) => Ok(Protocol::Sctp),
        Err(_) => Err(ParseError::invalid(format!("is not a known protocol: {number}"))),
    }
}

fn host_ip(address: &str) -> Result<String, ParseError> {
    let valid = address.is_empty() || address.parse::<IpAddr>().is_ok();
    text::checked(valid, "is not an IP address", address)
}

/// Maximum length of a host name in bytes: the kernel's `__NEW_UTS_LEN`.
const MAX_HOSTNAME: usize = 64;
/// Maximum number of pod CIDRs in a request. In Kubernetes, a node has at most two, one for each IP family.
const MAX_CIDRS: usize = 16;

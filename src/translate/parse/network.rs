//! The network settings of a pod: host name, ports and DNS, and the node's pod CIDRs.

use std::net::IpAddr;

use super::{
    error::{At, ParseError},
    text,
};
use crate::{
    model::network::{DnsConfig, PortMapping, Protocol, is_cidr},
    wire::cri,
};

/// The pod CIDRs that kubelet sends: all those of the node, separated by commas. Empty means none.
///
/// # Errors
/// Refuses text that is not a CIDR.
pub fn pod_cidrs(text: &str) -> Result<Vec<String>, ParseError> {
    let field = "runtime_config.network_config.pod_cidr";
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    if text.split(',').nth(MAX_CIDRS).is_some() {
        return Err(ParseError::invalid(format!("has more than {MAX_CIDRS} ranges"))).at(field);
    }
    text.split(',').map(|range| cidr(range.trim())).collect::<Result<_, _>>().at(field)
}

/// A host name of at most 64 bytes, which is the kernel's limit. It may end with a dot: kubelet sends this
/// for `setHostnameAsFQDN` and a subdomain if it has no cluster domain. A label may be longer than in DNS,
/// because Kubernetes does not limit the labels of `hostnameOverride`.
pub(super) fn hostname(name: &str) -> Result<String, ParseError> {
    let labels = name.strip_suffix('.').unwrap_or(name);
    let valid = name.len() <= MAX_HOSTNAME && labels.split('.').all(is_label);
    if name.is_empty() || valid {
        return Ok(name.to_owned());
    }
    Err(ParseError::invalid(format!("is not a host name: {}", text::quoted(name))))
}

/// DNS settings. Each value becomes part of a line of `resolv.conf`, so line breaks are refused.
pub(super) fn dns(given: &cri::DnsConfig) -> Result<DnsConfig, ParseError> {
    let words = |items: &[String]| text::each(items, |item| text::word(item));
    Ok(DnsConfig {
        servers: words(&given.servers).at("servers")?,
        searches: words(&given.searches).at("searches")?,
        options: text::each(&given.options, |option| text::line(option)).at("options")?,
    })
}

/// One port of a pod. No port is published in the host's network.
pub(super) fn port(
    given: &cri::PortMapping,
    host_network: bool,
) -> Result<PortMapping, ParseError> {
    let container_port = port_number(given.container_port).at("container_port")?;
    let host_port = port_number(given.host_port).at("host_port")?;
    if host_port != 0 && container_port == 0 {
        return Err(ParseError::missing()).at("container_port");
    }
    let host_ip = match host_ip(&given.host_ip) {
        // Kubernetes does not validate it, and it is not used without a host port.
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
    if address.is_empty() || address.parse::<IpAddr>().is_ok() {
        return Ok(address.to_owned());
    }
    Err(ParseError::invalid(format!("is not an address: {}", text::quoted(address))))
}

fn cidr(range: &str) -> Result<String, ParseError> {
    if is_cidr(range) {
        Ok(range.to_owned())
    } else {
        Err(ParseError::invalid(format!("is not a CIDR: {}", text::quoted(range))))
    }
}

/// `__NEW_UTS_LEN` of the kernel.
const MAX_HOSTNAME: usize = 64;
/// Far more than the two (one per family) that a node has.
const MAX_CIDRS: usize = 16;

//! The network settings of a pod: DNS, ports, and how it is connected.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// `DNSConfig` of CRI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DnsConfig {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// Transport protocol of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    /// The lower-case name that CNI and Docker use for the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

/// `PortMapping` of CRI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortMapping {
    pub protocol: Protocol,
    pub container_port: u16,
    /// The port on the host; 0 if the container's port is not published.
    pub host_port: u16,
    /// The address on the host; empty means all addresses.
    pub host_ip: String,
}

/// How a sandbox is connected to a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// The sandbox has a network namespace, which CNI plugins connect.
    Cni,
    /// The engine connects the sandbox to the engine's own bridge and publishes the sandbox's ports.
    Docker,
    Host,
}

/// Whether a text is an address range, such as `10.88.0.0/16`.
pub fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    // Checks for digits, because `parse` would accept a sign.
    bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

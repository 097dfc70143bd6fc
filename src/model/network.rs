//! The network settings of a pod: DNS, ports, and how it is connected.

use serde::{Deserialize, Serialize};

/// `DNSConfig` of CRI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DnsConfig {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// Transport of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    /// The lower-case name CNI and Docker use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

/// `PortMapping` of CRI. A host port of 0 means no mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortMapping {
    pub protocol: Protocol,
    pub container_port: u16,
    /// Port on the host, 0 for none.
    pub host_port: u16,
    /// Address on the host; empty means all.
    pub host_ip: String,
}

/// How a sandbox is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// A network namespace that CNI plugins connect.
    Cni,
    /// The engine's own bridge and published ports.
    Docker,
    Host,
}

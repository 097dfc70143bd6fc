//! The content of `/etc/resolv.conf`, `/etc/hosts` and `/etc/hostname` of a pod's containers.

use std::{fmt::Write as _, net::IpAddr};

use crate::model::{id::SandboxId, network::DnsConfig, sandbox::SandboxSpec};

/// The content of `/etc/resolv.conf`. Empty if the pod's DNS settings are empty.
pub fn resolv_conf(dns: &DnsConfig) -> String {
    let mut text: String =
        dns.servers.iter().map(|server| format!("nameserver {server}\n")).collect();
    for (key, values) in [("search", &dns.searches), ("options", &dns.options)] {
        if !values.is_empty() {
            // A write into a String cannot fail.
            let _ = writeln!(text, "{key} {}", values.join(" "));
        }
    }
    text
}

/// The content of `/etc/hosts` of a pod with these addresses: the names of loopback and of IPv6 multicast, and the
/// requested host name, if any.
pub fn hosts(spec: &SandboxSpec, addresses: &[IpAddr]) -> String {
    let mut text = LOOPBACK.to_owned();
    if !spec.hostname.is_empty() {
        for address in addresses {
            let _ = writeln!(text, "{address}\t{}", spec.hostname);
        }
    }
    text
}

/// The content of `/etc/hostname`: the requested host name, or otherwise the pod's short id, as in the engine.
pub fn hostname(spec: &SandboxSpec, id: &SandboxId) -> String {
    if !spec.hostname.is_empty() {
        return format!("{}\n", spec.hostname);
    }
    let short: String = id.as_str().chars().take(SHORT_ID).collect();
    format!("{short}\n")
}

/// Number of digits in the engine's short form of an id.
const SHORT_ID: usize = 12;
const LOOPBACK: &str = "\
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::\tip6-localnet
ff00::\tip6-mcastprefix
ff02::1\tip6-allnodes
ff02::2\tip6-allrouters
";

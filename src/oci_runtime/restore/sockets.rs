//! Checks that the new container has the capabilities for a container checkpoint's sockets: CRIU makes them as root.

use super::{
    config::Config,
    messages::{InternetSocket, NetlinkSocket, OpenFile, SocketOptions},
};

pub(super) fn check(file: &OpenFile, config: &Config) -> Result<(), String> {
    let needs = |what: &str, capability: &str| match config.allows(capability) {
        true => Ok(()),
        false => {
            Err(format!("the checkpoint has {what}, and the new container has no {capability}"))
        }
    };
    let internet = file.internet_socket.as_ref();
    let is_raw = internet.is_some_and(|socket| file.kind == INTERNET && socket.kind == RAW);
    if is_raw || file.kind == PACKET {
        needs("a raw socket", "CAP_NET_RAW")?;
    }
    if let Some(InternetSocket { port: 1.., .. }) = internet
        && internet.is_some_and(|socket| socket.port < first_unprivileged_port(config))
    {
        needs("a socket on a privileged port", "CAP_NET_BIND_SERVICE")?;
    }
    if let Some(NetlinkSocket { protocol, groups, .. }) = &file.netlink_socket
        && groups.iter().any(|bits| *bits != 0)
    {
        match *protocol {
            AUDIT => needs("a socket for audit records", "CAP_AUDIT_READ")?,
            protocol if UNPRIVILEGED_NETLINK.contains(&protocol) => {}
            _ => needs("a netlink socket for restricted kernel events", "CAP_NET_ADMIN")?,
        }
    }
    let unix = file.unix_socket.as_ref().and_then(|socket| socket.options);
    let packet = file.packet_socket.as_ref().and_then(|socket| socket.options);
    let netlink = file.netlink_socket.as_ref().and_then(|socket| socket.options);
    let options = [internet.and_then(|socket| socket.options), unix, packet, netlink];
    for SocketOptions { priority, mark } in options.into_iter().flatten() {
        if mark.unwrap_or_default() != 0 || priority.unwrap_or_default() > HIGHEST_PRIORITY {
            needs("a socket with SO_MARK, or with SO_PRIORITY above 6", "CAP_NET_ADMIN")?;
        }
    }
    Ok(())
}

/// The lowest port for which a process needs no capability, if the container's `config.json` sets it. Otherwise
/// returns the kernel's default, because the setting of the pod's network namespace is unknown.
fn first_unprivileged_port(config: &Config) -> u32 {
    let set = config.linux.sysctl.get("net.ipv4.ip_unprivileged_port_start");
    set.and_then(|port| port.parse().ok()).unwrap_or(DEFAULT_PORT)
}

const INTERNET: u32 = 4;
const PACKET: u32 = 10;
/// SOCK_RAW.
const RAW: u32 = 3;
const DEFAULT_PORT: u32 = 1024;
const HIGHEST_PRIORITY: u32 = 6;
const AUDIT: u32 = 9;
/// Netlink protocols whose events every process may receive: addresses and routes, devices, generic netlink.
const UNPRIVILEGED_NETLINK: [u32; 3] = [0, 15, 16];

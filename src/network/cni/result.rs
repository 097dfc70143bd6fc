//! Parses the result of ADD in every format of the specification.
//!
//! Up to 0.2.0, a result has `ip4` and `ip6`. From 0.3.0 on, a result has a list `ips` whose entries may refer to a
//! list `interfaces`. This module parses only the addresses and the path of the namespace. dockbridge stores the whole
//! result.

use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::wire::nullable::nullable;

/// The reason why dockbridge cannot use a plugin's result.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ResultError {
    /// Plugins cannot parse the result either, so DEL would fail with it as `prevResult`.
    #[error("{0}")]
    Malformed(String),
    #[error("{0}")]
    Unusable(String),
}

/// Addresses of the pod's `interface`, in the order of the result. Fails if the interface has no address.
///
/// An address without an interface belongs to the pod. Addresses on other interfaces (a bridge on the host, a
/// second interface in the pod) are left out.
pub fn addresses(result: &Value, interface: &str) -> Result<Vec<IpAddr>, ResultError> {
    let fields = AddResult::deserialize(result)
        .map_err(|e| ResultError::Malformed(format!("not a CNI result: {e}")))?;
    let interfaces = fields.interfaces.unwrap_or_default();
    let mut found = Vec::new();
    for ip in fields.ips.unwrap_or_default() {
        if is_of(&ip, &interfaces, interface)? {
            found.push(address(&ip.address)?);
        }
    }
    for old in [fields.ip4, fields.ip6].into_iter().flatten() {
        found.push(address(&old.ip)?);
    }
    if found.is_empty() {
        return Err(ResultError::Unusable(format!("no address for interface {interface}")));
    }
    Ok(found)
}

/// Sorts the addresses of the first pod CIDR's IP family first. Without a pod CIDR, keeps the order of the addresses.
pub fn primary_first(mut addresses: Vec<IpAddr>, pod_cidrs: &[String]) -> Vec<IpAddr> {
    if let Some(first) = pod_cidrs.first() {
        let v6 = first.contains(':');
        addresses.sort_by_key(|address| address.is_ipv6() != v6);
    }
    addresses
}

/// The namespace path in a plugin's result, for a cache file that has no namespace path itself.
pub(super) fn namespace_path(result: &Value) -> Option<String> {
    let interfaces = AddResult::deserialize(result).ok()?.interfaces?;
    interfaces.into_iter().filter_map(|i| i.sandbox).find(|sandbox| !sandbox.is_empty())
}

#[derive(Deserialize)]
struct AddResult {
    ips: Option<Vec<Ip>>,
    interfaces: Option<Vec<Interface>>,
    ip4: Option<OldIp>,
    ip6: Option<OldIp>,
}

#[derive(Deserialize)]
struct Ip {
    address: String,
    interface: Option<i64>,
}

#[derive(Deserialize)]
struct OldIp {
    ip: String,
}

#[derive(Deserialize)]
struct Interface {
    #[serde(default, deserialize_with = "nullable")]
    name: String,
    sandbox: Option<String>,
}

fn is_of(ip: &Ip, interfaces: &[Interface], requested: &str) -> Result<bool, ResultError> {
    let Some(index) = ip.interface else { return Ok(true) };
    let found = usize::try_from(index).ok().and_then(|index| interfaces.get(index));
    let Some(found) = found else {
        let (address, known) = (&ip.address, interfaces.len());
        return Err(ResultError::Unusable(format!(
            "address {address} belongs to interface {index}, but the result has only {known} interfaces"
        )));
    };
    // Some plugins do not set `sandbox`. If no interface with the requested name has a `sandbox`, all interfaces with
    // this name count as interfaces of the pod.
    let inside = |i: &Interface| i.sandbox.as_deref().is_some_and(|sandbox| !sandbox.is_empty());
    let listed = interfaces.iter().any(|i| i.name == requested && inside(i));
    Ok(found.name == requested && (inside(found) || !listed))
}

fn address(text: &str) -> Result<IpAddr, ResultError> {
    let bare = text.split_once('/').map_or(text, |(address, _)| address);
    bare.parse().map_err(|_| ResultError::Malformed(format!("{text:?} is not an IP address")))
}

#[cfg(test)]
mod tests;

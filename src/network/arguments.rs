//! Arguments of CNI plugins for a pod: `CNI_ARGS`, and the values of capabilities (`runtimeConfig`). Both follow
//! from the recorded attachment, so that DEL gets the same as ADD.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::quantity;
use crate::{
    error::Failure,
    model::attachment::{CniAttachment, PodNetwork},
    model::network::PortMapping,
    model::spec_edit::without_empty,
};

/// `CNI_ARGS` as pairs of key and value, with the keys of other Kubernetes runtimes.
///
/// # Errors
/// Fails if a value contains `;`, `=` or a control character.
pub fn pairs(pod: &PodNetwork) -> Result<Vec<(String, String)>, Failure> {
    let args = [
        ("IgnoreUnknown", "1"),
        ("K8S_POD_NAMESPACE", &pod.metadata.namespace),
        ("K8S_POD_NAME", &pod.metadata.name),
        ("K8S_POD_INFRA_CONTAINER_ID", pod.id.as_str()),
        ("K8S_POD_UID", &pod.metadata.uid),
    ];
    args.into_iter()
        .map(|(key, value)| {
            if value.contains(|c: char| matches!(c, ';' | '=') || c.is_control()) {
                // `CNI_ARGS` has no syntax to quote `;` or `=`.
                let reason = format!(
                    "the pod's {key} {value:?} cannot be passed to network plugins: it contains \
                     ';', '=' or a control character"
                );
                return Err(Failure::invalid(reason));
            }
            Ok((key.to_owned(), value.to_owned()))
        })
        .collect()
}

/// The pairs as the text of `CNI_ARGS`.
pub fn joined(pairs: &[(String, String)]) -> String {
    let texts: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    texts.join(";")
}

/// The pod's values for CNI capabilities, by capability. Fails if a bandwidth annotation is invalid.
pub fn capabilities(cni: &CniAttachment) -> Result<Map<String, Value>, Failure> {
    let pod = &cni.pod;
    let cgroup = (!pod.cgroup_parent.is_empty()).then(|| pod.cgroup_parent.clone().into());
    let annotations = (!pod.annotations.is_empty()).then(|| json!(pod.annotations));
    let dns = pod.dns.as_ref().map(
        |dns| json!({"servers": dns.servers, "searches": dns.searches, "options": dns.options}),
    );
    let all = [
        (PORT_MAPPINGS, port_mappings(&pod.ports)),
        ("bandwidth", bandwidth(&pod.annotations)?),
        (IP_RANGES, ip_ranges(&cni.pod_cidrs)),
        ("dns", dns),
        ("io.kubernetes.cri.pod-annotations", annotations),
        ("cgroupPath", cgroup),
    ];
    Ok(all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
}

/// Reads the pod CIDRs from the capabilities of a cached ADD.
pub fn pod_cidrs(capabilities: &Map<String, Value>) -> Vec<String> {
    let lists = capabilities.get(IP_RANGES).and_then(Value::as_array).into_iter().flatten();
    let ranges = lists.filter_map(Value::as_array).flatten();
    let subnets = ranges.filter_map(|range| range.get("subnet")?.as_str());
    subnets.filter(|subnet| !subnet.is_empty()).map(str::to_owned).collect()
}

/// Whether the pod requests host ports.
pub fn wants_host_ports(pod: &PodNetwork) -> bool {
    pod.ports.iter().any(|port| port.host_port != 0)
}

/// Name of the CNI capability for host ports.
pub const PORT_MAPPINGS: &str = "portMappings";
/// Name of the CNI capability that passes the node's pod CIDRs to plugins.
pub const IP_RANGES: &str = "ipRanges";

fn port_mappings(ports: &[PortMapping]) -> Option<Value> {
    let mapped = ports.iter().filter(|port| port.host_port != 0);
    let entry = |port: &PortMapping| {
        without_empty(json!({
            "hostPort": port.host_port,
            "containerPort": port.container_port,
            "protocol": port.protocol.as_str(),
            "hostIP": port.host_ip,
        }))
    };
    let entries: Vec<Value> = mapped.map(entry).collect();
    (!entries.is_empty()).then_some(Value::Array(entries))
}

/// The `bandwidth` capability without the directions that have no annotation, because plugins read a rate of
/// zero as unlimited, but then refuse a burst.
fn bandwidth(annotations: &BTreeMap<String, String>) -> Result<Option<Value>, Failure> {
    let mut limits = Map::new();
    for (key, rate, burst) in DIRECTIONS {
        let Some(value) = annotations.get(key) else { continue };
        let bits = quantity::rate(value)
            .map_err(|reason| Failure::invalid(format!("annotation {key}={value:?}: {reason}")))?;
        limits.insert(rate.to_owned(), bits.into());
        limits.insert(burst.to_owned(), i32::MAX.into());
    }
    Ok((!limits.is_empty()).then_some(Value::Object(limits)))
}

/// Plugins assign one address for each inner list, so dockbridge sends one inner list for each IP family.
fn ip_ranges(cidrs: &[String]) -> Option<Value> {
    let (v6, v4): (Vec<&String>, Vec<&String>) = cidrs.iter().partition(|cidr| cidr.contains(':'));
    let families =
        if cidrs.first().is_some_and(|cidr| cidr.contains(':')) { [v6, v4] } else { [v4, v6] };
    let lists = families
        .into_iter()
        .filter(|family| !family.is_empty())
        .map(|family| family.into_iter().map(|cidr| json!({"subnet": cidr})).collect::<Value>());
    let lists: Vec<Value> = lists.collect();
    (!lists.is_empty()).then_some(Value::Array(lists))
}

const DIRECTIONS: [(&str, &str, &str); 2] = [
    ("kubernetes.io/ingress-bandwidth", "ingressRate", "ingressBurst"),
    ("kubernetes.io/egress-bandwidth", "egressRate", "egressBurst"),
];

#[cfg(test)]
mod tests;

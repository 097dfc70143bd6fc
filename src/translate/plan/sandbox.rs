//! Plans the pause container of a pod, which holds the namespaces that the pod's other containers join.

use std::collections::HashMap;

use super::{
    defaults::{SHM_SIZE, annotations, never_restart, no_healthcheck, none_if_empty},
    identity,
    input::SandboxInput,
    labels, name,
    network_namespace::NetworkNamespace,
    oci_runtime, security_options,
};
use crate::{
    error::Failure,
    model::{
        document::{SandboxDocument, VERSION},
        engine::{ApiVersion, CgroupDriver, EngineInfo},
        name::sandbox_name,
        network::{DnsConfig, NetworkMode, PortMapping},
        sandbox::{DEFAULT_HANDLER, PidMode, SandboxSpec},
    },
    translate::limits,
    wire::docker::{ContainerCreateBody, HostConfig, HostConfigLogConfig, PortBinding},
};

/// What dockbridge needs to create a pause container.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxPlan {
    pub name: String,
    /// The document for the pause container's label and for the checkpoint file in the state directory.
    pub document: SandboxDocument,
    pub body: ContainerCreateBody,
    pub namespace: NetworkNamespace,
}

/// Plans the pause container of a pod.
///
/// # Errors
/// The engine does not have the runtime, uses another cgroup driver than kubelet, or cannot fulfil the request.
pub fn plan(spec: SandboxSpec, input: &SandboxInput<'_>) -> Result<SandboxPlan, Failure> {
    let name = name::checked(sandbox_name(&spec.metadata))?;
    let network = if spec.namespaces.host_network { NetworkMode::Host } else { input.network };
    let annotates = input.engine.api >= ApiVersion::ANNOTATIONS;
    let shim_group =
        Some(input.shim_group.to_owned()).filter(|group| annotates && !group.is_empty());
    let document =
        SandboxDocument { version: VERSION, spec, network, shim_group, is_adopted: false };
    oci_runtime::check_sandbox(&document, input.engine)?;
    let namespace = NetworkNamespace::of(&document, input.engine);
    let body = body(&document, namespace, input)?;
    Ok(SandboxPlan { name, document, body, namespace })
}

fn body(
    document: &SandboxDocument,
    namespace: NetworkNamespace,
    input: &SandboxInput<'_>,
) -> Result<ContainerCreateBody, Failure> {
    let spec = &document.spec;
    let mut host = host_config(document, input)?;
    let mut body = ContainerCreateBody {
        image: Some(input.pause.to_string()),
        labels: Some(labels::sandbox(document)?),
        healthcheck: Some(no_healthcheck()),
        ..ContainerCreateBody::default()
    };
    let identity = identity::as_requested(&spec.security.identity);
    (body.user, host.group_add) = (identity.user, identity.groups);
    connect(&mut body, &mut host, document);
    if namespace != NetworkNamespace::Engine || spec.namespaces.users.is_some() {
        oci_runtime::use_ours(&mut host);
    }
    body.host_config = Some(host);
    Ok(body)
}

fn host_config(
    document: &SandboxDocument,
    input: &SandboxInput<'_>,
) -> Result<HostConfig, Failure> {
    let spec = &document.spec;
    let mut host = HostConfig {
        annotations: annotations(document, input.engine),
        cgroup_parent: cgroup_parent(&spec.cgroup_parent, input.engine.cgroup_driver)?,
        cpu_shares: Some(PAUSE_CPU_SHARES),
        init: Some(false),
        ipc_mode: Some(if spec.namespaces.host_ipc { "host" } else { "shareable" }.to_owned()),
        // The CRI has no log for the pause container.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        oom_score_adj: Some(limits::docker::oom_score_adj(PAUSE_OOM_SCORE, input.oom_floor)),
        pid_mode: (spec.namespaces.pid == PidMode::Node).then(|| "host".to_owned()),
        restart_policy: Some(never_restart()),
        runtime: engine_runtime(&spec.handler, input.engine)?,
        shm_size: Some(SHM_SIZE),
        sysctls: (!spec.sysctls.is_empty()).then(|| spec.sysctls.clone().into_iter().collect()),
        ..HostConfig::default()
    };
    security_options::confine_sandbox(&mut host, &spec.security, input.engine, input.seccomp)?;
    Ok(host)
}

fn connect(body: &mut ContainerCreateBody, host: &mut HostConfig, document: &SandboxDocument) {
    let spec = &document.spec;
    let hostname = Some(spec.hostname.clone()).filter(|name| !name.is_empty());
    match document.network {
        // With the network mode `none`, the engine does no network set-up, which would be slow and disturb CNI.
        NetworkMode::Cni => {
            host.network_mode = Some("none".to_owned());
            body.network_disabled = Some(true);
            body.hostname = hostname;
        }
        NetworkMode::Docker => {
            let bindings = bindings(&spec.ports);
            // The request also exposes the ports, because the engine publishes only exposed ports.
            let mut exposed: Vec<String> = bindings.keys().cloned().collect();
            exposed.sort();
            host.network_mode = Some("default".to_owned());
            host.port_bindings = Some(bindings).filter(|bindings| !bindings.is_empty());
            body.exposed_ports = Some(exposed).filter(|exposed| !exposed.is_empty());
            body.hostname = hostname;
            resolve(host, spec.dns.as_ref());
        }
        // The engine refuses a host name for a container in the host's UTS namespace.
        NetworkMode::Host => {
            host.network_mode = Some("host".to_owned());
            host.uts_mode = Some("host".to_owned());
            resolve(host, spec.dns.as_ref());
        }
    }
}

/// Sets the DNS settings for the `resolv.conf` that the engine creates. For an empty list of DNS servers the engine
/// copies the host's servers, so dockbridge also mounts its own `resolv.conf` into the pod's containers.
fn resolve(host: &mut HostConfig, dns: Option<&DnsConfig>) {
    let Some(dns) = dns else { return };
    host.dns = none_if_empty(&dns.servers);
    host.dns_search = none_if_empty(&dns.searches);
    host.dns_options = none_if_empty(&dns.options);
}

/// The engine's runtime for a handler. `None` means the engine's default runtime.
pub(super) fn engine_runtime(
    handler: &str,
    engine: &EngineInfo,
) -> Result<Option<String>, Failure> {
    if handler.is_empty() || handler == DEFAULT_HANDLER {
        return Ok(None);
    }
    if engine.runtimes.contains_key(handler) {
        return Ok(Some(handler.to_owned()));
    }
    let known: Vec<&str> = engine.runtimes.keys().map(String::as_str).collect();
    let known = known.join(", ");
    Err(Failure::invalid(format!(
        "unknown runtime handler {handler:?}: the engine has the runtimes {known}"
    )))
}

/// The engine's `CgroupParent`. `None` means the engine's default. With systemd, kubelet sends the whole path of the
/// slice, and the engine needs its last component. Refuses a parent in the other driver's format, because kubelet and
/// the engine would use different cgroups.
pub(super) fn cgroup_parent(stated: &str, driver: CgroupDriver) -> Result<Option<String>, Failure> {
    let path = stated.trim_end_matches('/');
    let last = path.rsplit('/').next().unwrap_or(path);
    let refuse = |driver, remedy| {
        Err(Failure::unmet(format!(
            "cgroup parent {stated:?} does not fit the engine's {driver} cgroup driver: {remedy}"
        )))
    };
    match driver {
        _ if path.is_empty() => Ok(None),
        // Without a cgroup driver, the engine would ignore the parent.
        CgroupDriver::None => Ok(None),
        CgroupDriver::Systemd if last.ends_with(SLICE) => Ok(Some(last.to_owned())),
        CgroupDriver::Systemd => refuse("systemd", SET_SYSTEMD),
        CgroupDriver::Cgroupfs if last.ends_with(SLICE) => refuse("cgroupfs", SET_CGROUPFS),
        CgroupDriver::Cgroupfs => Ok(Some(path.to_owned())),
    }
}

/// The engine's `PortBindings`: for each port such as `80/tcp`, addresses and ports of the host.
fn bindings(ports: &[PortMapping]) -> HashMap<String, Option<Vec<PortBinding>>> {
    let mut bindings: HashMap<String, Option<Vec<PortBinding>>> = HashMap::new();
    for port in ports.iter().filter(|port| port.host_port != 0) {
        let key = format!("{}/{}", port.container_port, port.protocol.as_str());
        bindings.entry(key).or_default().get_or_insert_default().push(PortBinding {
            host_ip: Some(port.host_ip.clone()),
            host_port: Some(port.host_port.to_string()),
        });
    }
    bindings
}

/// If memory is short, the kernel must not kill the pause container before the pod's other containers.
const PAUSE_OOM_SCORE: i64 = -998;
/// The kernel's smallest weight, because the pause container only sleeps.
const PAUSE_CPU_SHARES: i64 = 2;
const SLICE: &str = ".slice";
const SET_SYSTEMD: &str = "the cgroup parent is not a systemd slice; set cgroupDriver: systemd in the \
                           kubelet's configuration and restart kubelet";
const SET_CGROUPFS: &str = "the cgroup parent is a systemd slice; set \"exec-opts\": \
                            [\"native.cgroupdriver=systemd\"] in daemon.json and restart Docker, or set \
                            cgroupDriver: cgroupfs in the kubelet's configuration and restart kubelet";

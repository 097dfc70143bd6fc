//! Pods and containers as NRI plugins see them.
//!
//! A field that neither CRI nor Docker reports is left out. Plugins read an empty field as unknown.

use std::path::PathBuf;

use crate::{
    model::{
        container::{ContainerSpec, Device, Mount, Propagation},
        engine::{CgroupDriver, EngineInfo},
        filter::ContainerStateFilter,
        network::NetworkMode,
        record::{ContainerRecord, Process, SandboxRecord},
        resources::{PodResources, Resources},
        sandbox::PidMode,
        security::Profile,
    },
    translate::limits,
    wire::nri,
};

/// A pod record, and what plugins receive in addition.
pub struct PodView<'a> {
    pub record: &'a SandboxRecord,
    /// Where its network namespace is pinned, if it is.
    pub network_namespace: Option<PathBuf>,
    /// The pod's limits, from kubelet.
    pub resources: PodResources,
    /// The engine, once it has described itself.
    pub engine: Option<&'a EngineInfo>,
}

/// A container record, and what plugins receive in addition.
pub struct ContainerView<'a> {
    pub record: &'a ContainerRecord,
    /// The limits that were asked for last.
    pub resources: Resources,
    /// The pod's pid, whose namespaces it shares.
    pub pod: Option<&'a SandboxRecord>,
    /// The engine, once it has described itself.
    pub engine: Option<&'a EngineInfo>,
}

/// A pod.
pub fn pod(view: &PodView<'_>) -> nri::PodSandbox {
    let record = view.record;
    let spec = &record.document.spec;
    let resources = &view.resources;
    let linux = nri::LinuxPodSandbox {
        pod_overhead: resources.overhead.as_ref().map(limits::nri::rendered),
        pod_resources: resources.resources.as_ref().map(limits::nri::rendered),
        cgroup_parent: spec.cgroup_parent.clone(),
        cgroups_path: cgroups_path(&spec.cgroup_parent, record.id.as_str(), view.engine),
        namespaces: pod_namespaces(view),
        resources: None,
    };
    nri::PodSandbox {
        id: record.id.to_string(),
        name: spec.metadata.name.clone(),
        uid: spec.metadata.uid.clone(),
        namespace: spec.metadata.namespace.clone(),
        labels: spec.labels.clone(),
        annotations: spec.annotations.clone(),
        runtime_handler: spec.handler.clone(),
        linux: Some(linux),
        pid: record.pid().unwrap_or_default(),
        ips: record.addresses().iter().map(ToString::to_string).collect(),
    }
}

/// A container.
pub fn container(view: &ContainerView<'_>) -> nri::Container {
    let record = view.record;
    let document = &record.document;
    let spec = &document.spec;
    let ending = Ending::of(&record.process);
    let timestamp = |at: Option<i64>| at.filter(|at| *at > 0).unwrap_or_default();
    nri::Container {
        id: record.id.to_string(),
        pod_sandbox_id: document.sandbox.to_string(),
        name: spec.metadata.name.clone(),
        state: state(&record.process).into(),
        labels: spec.labels.clone(),
        annotations: spec.annotations.clone(),
        args: spec.command.iter().chain(&spec.args).cloned().collect(),
        env: spec.envs.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        mounts: spec.mounts.iter().map(mount).collect(),
        hooks: None,
        linux: Some(linux_container(view)),
        pid: record.process.pid().unwrap_or_default(),
        rlimits: Vec::new(),
        created_at: timestamp(Some(record.created_at.0)),
        started_at: timestamp(record.process.started_at().map(|at| at.0)),
        finished_at: timestamp(ending.finished_at),
        exit_code: ending.exit_code,
        status_reason: ending.reason.to_owned(),
        status_message: ending.message.to_owned(),
        cdi_devices: spec
            .cdi_devices
            .iter()
            .map(|name| nri::CdiDevice { name: name.clone() })
            .collect(),
        user: document.user.as_ref().map(|user| nri::User {
            uid: user.uid,
            gid: user.gid,
            additional_gids: user.groups.clone(),
        }),
        image: Some(image(view)),
    }
}

/// How a container ended; empty before its end.
#[derive(Default)]
struct Ending<'a> {
    finished_at: Option<i64>,
    exit_code: i32,
    reason: &'static str,
    message: &'a str,
}

impl<'a> Ending<'a> {
    fn of(process: &'a Process) -> Self {
        let Process::Exited { finished_at, exit_code, reason, message, .. } = process else {
            return Self::default();
        };
        Self {
            finished_at: Some(finished_at.0),
            exit_code: *exit_code,
            reason: reason.as_str(),
            message,
        }
    }
}

fn state(process: &Process) -> nri::ContainerState {
    match ContainerStateFilter::of(process) {
        ContainerStateFilter::Created => nri::ContainerState::ContainerCreated,
        ContainerStateFilter::Running => nri::ContainerState::ContainerRunning,
        ContainerStateFilter::Exited => nri::ContainerState::ContainerStopped,
        ContainerStateFilter::Unknown => nri::ContainerState::ContainerUnknown,
    }
}

fn linux_container(view: &ContainerView<'_>) -> nri::LinuxContainer {
    let spec = &view.record.document.spec;
    let parent = view.pod.map_or("", |pod| pod.document.spec.cgroup_parent.as_str());
    let score = view.resources.oom_score_adj;
    nri::LinuxContainer {
        namespaces: container_namespaces(view),
        devices: spec.devices.iter().map(device).collect(),
        resources: Some(limits::nri::rendered(&view.resources)),
        oom_score_adj: (score != 0).then_some(nri::OptionalInt { value: score }),
        cgroups_path: cgroups_path(parent, view.record.id.as_str(), view.engine),
        seccomp_profile: spec.security.seccomp.as_ref().map(seccomp),
        sysctl: view.pod.map(|pod| pod.document.spec.sysctls.clone()).unwrap_or_default(),
        ..nri::LinuxContainer::default()
    }
}

/// The path as Docker passes it to the OCI runtime: `/parent/id`, or `slice:docker:id` with systemd.
fn cgroups_path(parent: &str, id: &str, engine: Option<&EngineInfo>) -> String {
    match engine.map(|engine| engine.cgroup_driver) {
        Some(CgroupDriver::Systemd) => {
            let slice = parent.rsplit('/').next().filter(|slice| !slice.is_empty());
            format!("{}:docker:{id}", slice.unwrap_or("system.slice"))
        }
        Some(CgroupDriver::Cgroupfs) if parent.is_empty() => format!("/docker/{id}"),
        Some(CgroupDriver::Cgroupfs) => format!("{}/{id}", parent.trim_end_matches('/')),
        Some(CgroupDriver::None) | None => String::new(),
    }
}

fn pod_namespaces(view: &PodView<'_>) -> Vec<nri::LinuxNamespace> {
    let (document, pid) = (&view.record.document, view.record.pid());
    let shared = &document.spec.namespaces;
    let own = |kind: &str| pid.map(|pid| format!("/proc/{pid}/ns/{kind}")).unwrap_or_default();
    let mut found = vec![namespace("mount", own("mnt"))];
    if document.network != NetworkMode::Host {
        let pinned = view.network_namespace.as_ref();
        let path = pinned.map_or_else(|| own("net"), |path| path.display().to_string());
        found.push(namespace("network", path));
        found.push(namespace("uts", own("uts")));
    }
    if !shared.host_ipc {
        found.push(namespace("ipc", own("ipc")));
    }
    if shared.pid != PidMode::Node {
        found.push(namespace("pid", own("pid")));
    }
    if shared.users.is_some() {
        found.push(namespace("user", own("user")));
    }
    found
}

/// Namespaces of the pod have the path of the pause process in `/proc`.
fn container_namespaces(view: &ContainerView<'_>) -> Vec<nri::LinuxNamespace> {
    let spec = &view.record.document.spec;
    let mut found = vec![namespace("mount", String::new())];
    let Some(pod) = view.pod else { return found };
    let of_pod =
        |kind: &str| pod.pid().map(|pid| format!("/proc/{pid}/ns/{kind}")).unwrap_or_default();
    let shared = &pod.document.spec.namespaces;
    if pod.document.network != NetworkMode::Host {
        found.push(namespace("network", of_pod("net")));
        found.push(namespace("uts", of_pod("uts")));
    }
    if !shared.host_ipc {
        found.push(namespace("ipc", of_pod("ipc")));
    }
    match spec.pid {
        PidMode::Node => {}
        PidMode::Pod => found.push(namespace("pid", of_pod("pid"))),
        PidMode::Container | PidMode::Target => found.push(namespace("pid", String::new())),
    }
    if spec.users.is_some() {
        found.push(namespace("user", of_pod("user")));
    }
    found
}

fn namespace(kind: &str, path: String) -> nri::LinuxNamespace {
    nri::LinuxNamespace { r#type: kind.to_owned(), path }
}

fn mount(given: &Mount) -> nri::Mount {
    let propagation = match given.propagation {
        Propagation::Private => "rprivate",
        Propagation::HostToContainer => "rslave",
        Propagation::Bidirectional => "rshared",
    };
    let access = if given.readonly { "ro" } else { "rw" };
    let fixed = ["rbind", propagation, access];
    nri::Mount {
        destination: given.container_path.clone(),
        r#type: "bind".to_owned(),
        source: given.image.clone().unwrap_or_else(|| given.host_path.clone()),
        options: fixed.map(str::to_owned).into_iter().chain(given.options.clone()).collect(),
    }
}

/// Without type and numbers, because the host's device is not read for this.
fn device(given: &Device) -> nri::LinuxDevice {
    nri::LinuxDevice { path: given.container_path.clone(), ..nri::LinuxDevice::default() }
}

fn seccomp(profile: &Profile) -> nri::SecurityProfile {
    use nri::security_profile::ProfileType;
    let (kind, path) = match profile {
        Profile::RuntimeDefault => (ProfileType::RuntimeDefault, ""),
        Profile::Unconfined => (ProfileType::Unconfined, ""),
        Profile::Localhost(path) => (ProfileType::Localhost, path.as_str()),
    };
    nri::SecurityProfile { profile_type: kind.into(), localhost_ref: path.to_owned() }
}

/// The image as it was requested. Its id in Docker is the digest of its configuration, or with containerd's
/// store the digest of its index or manifest.
fn image(view: &ContainerView<'_>) -> nri::Image {
    let document = &view.record.document;
    let ContainerSpec { image, user_image, .. } = &document.spec;
    let named = if user_image.is_empty() { image } else { user_image };
    let id = document.image_id.to_string();
    let digest = document.image_ref.split_once('@').map(|(_, digest)| digest.to_owned());
    match view.engine.is_some_and(|engine| engine.containerd_store) {
        true => nri::Image { name: named.clone(), digest: id, config_digest: String::new() },
        false => nri::Image {
            name: named.clone(),
            digest: digest.unwrap_or_default(),
            config_digest: id,
        },
    }
}

//! Renders pods and containers as NRI messages.
//!
//! A field without a value in CRI and Docker is left out, which plugins read as unknown.

use std::path::PathBuf;

use crate::{
    model::{
        container::{ContainerSpec, Device, Mount, Propagation},
        engine::{CgroupDriver, EngineInfo},
        network::NetworkMode,
        path::parts,
        record::{ContainerRecord, Process, SandboxRecord},
        resources::{PodResources, Resources, first_set},
        sandbox::PidMode,
        security::Profile,
    },
    translate::limits,
    wire::{cri, nri},
};

/// A pod record, and further data that plugins receive.
pub struct PodView<'a> {
    pub record: &'a SandboxRecord,
    /// Path at which the pod's network namespace is pinned, if it is pinned.
    pub network_namespace: Option<PathBuf>,
    pub resources: PodResources,
    /// The engine's description; `None` before its first answer.
    pub engine: Option<&'a EngineInfo>,
}

/// A container record, and further data that plugins receive.
pub struct ContainerView<'a> {
    pub record: &'a ContainerRecord,
    pub resources: Resources,
    pub pod: Option<&'a SandboxRecord>,
    /// The engine's description; `None` before its first answer.
    pub engine: Option<&'a EngineInfo>,
}

/// Renders a pod.
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

/// Renders a container.
pub fn container(view: &ContainerView<'_>) -> nri::Container {
    let record = view.record;
    let document = &record.document;
    let spec = &document.spec;
    let args = match &record.command_line[..] {
        [] => [&spec.command[..], &spec.args].concat(),
        inspected => inspected.to_vec(),
    };
    let cdi_devices = spec.cdi_devices.iter().cloned().map(|name| nri::CdiDevice { name });
    let mut shown = nri::Container {
        id: record.id.to_string(),
        pod_sandbox_id: document.sandbox.to_string(),
        name: spec.metadata.name.clone(),
        state: state(&record.process).into(),
        labels: spec.labels.clone(),
        annotations: spec.annotations.clone(),
        args,
        env: spec.envs.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        mounts: mounts(spec),
        linux: Some(linux_container(view)),
        pid: record.process.pid().unwrap_or_default(),
        created_at: record.created_at.0.max(0),
        started_at: record.process.started_at().map_or(0, |at| at.0.max(0)),
        cdi_devices: cdi_devices.collect(),
        user: document.user.as_ref().map(|user| nri::User {
            uid: user.uid,
            gid: user.gid,
            additional_gids: user.groups.clone(),
        }),
        image: Some(image(view)),
        ..nri::Container::default()
    };
    if let Process::Exited { finished_at, exit_code, reason, message, .. } = &record.process {
        (shown.finished_at, shown.exit_code) = (finished_at.0.max(0), *exit_code);
        reason.as_str().clone_into(&mut shown.status_reason);
        shown.status_message.clone_from(message);
    }
    shown
}

fn state(process: &Process) -> nri::ContainerState {
    match super::container::state(process) {
        cri::ContainerState::ContainerCreated => nri::ContainerState::ContainerCreated,
        cri::ContainerState::ContainerRunning => nri::ContainerState::ContainerRunning,
        cri::ContainerState::ContainerExited => nri::ContainerState::ContainerStopped,
        cri::ContainerState::ContainerUnknown => nri::ContainerState::ContainerUnknown,
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

/// A container's cgroup path as Docker passes it to the OCI runtime: `/parent/id`, or `slice:docker:id` with systemd.
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

/// The namespaces that a pod does not share with the host, with paths in `/proc` of the pause process. A pinned
/// network namespace has the path of its pin.
fn pod_namespaces(view: &PodView<'_>) -> Vec<nri::LinuxNamespace> {
    let spec = &view.record.document.spec.namespaces;
    let own = |kind| held_by(view.record, kind);
    let network = view.network_namespace.as_ref();
    let network = network.map_or_else(|| own("net"), |path| path.display().to_string());
    let pid = (spec.pid != PidMode::Node).then(|| own("pid"));
    namespaces(view.record, [own("mnt"), network], pid, spec.users.is_some())
}

fn container_namespaces(view: &ContainerView<'_>) -> Vec<nri::LinuxNamespace> {
    let spec = &view.record.document.spec;
    let Some(pod) = view.pod else { return vec![namespace("mount", String::new())] };
    let pid = match spec.pid {
        PidMode::Node => None,
        PidMode::Pod => Some(held_by(pod, "pid")),
        PidMode::Container | PidMode::Target => Some(String::new()),
    };
    namespaces(pod, [String::new(), held_by(pod, "net")], pid, spec.users.is_some())
}

fn namespaces(
    pod: &SandboxRecord,
    [mount, network]: [String; 2],
    pid: Option<String>,
    has_users: bool,
) -> Vec<nri::LinuxNamespace> {
    let document = &pod.document;
    let has_network = document.network != NetworkMode::Host;
    let own = |kind, has_own: bool| has_own.then(|| held_by(pod, kind));
    let all = [
        ("mount", Some(mount)),
        ("network", has_network.then_some(network)),
        ("uts", own("uts", has_network)),
        ("ipc", own("ipc", !document.spec.namespaces.host_ipc)),
        ("pid", pid),
        ("user", own("user", has_users)),
    ];
    all.into_iter().filter_map(|(kind, path)| Some(namespace(kind, path?))).collect()
}

fn held_by(pod: &SandboxRecord, kind: &str) -> String {
    pod.pid().map(|pid| format!("/proc/{pid}/ns/{kind}")).unwrap_or_default()
}

fn namespace(kind: &str, path: String) -> nri::LinuxNamespace {
    nri::LinuxNamespace { r#type: kind.to_owned(), path }
}

/// The mounts of [`ENGINE_MOUNTS`], unless the request replaces them, and the mounts of the request.
fn mounts(spec: &ContainerSpec) -> Vec<nri::Mount> {
    let has = |path: &str| spec.mounts.iter().any(|it| parts(&it.container_path) == parts(path));
    let engine = ENGINE_MOUNTS.into_iter().filter(|(path, ..)| !has(path));
    let engine = engine.map(|(path, kind, options)| nri::Mount {
        destination: path.to_owned(),
        r#type: kind.to_owned(),
        source: kind.to_owned(),
        // In a privileged container, Docker makes `/sys` and the cgroups writable.
        options: (options.split(' '))
            .filter(|option| !spec.security.privileged || *option != "ro")
            .map(str::to_owned)
            .collect(),
    });
    engine.chain(spec.mounts.iter().map(mount)).collect()
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

/// Renders a device without type and numbers, because dockbridge does not read the host's device file here.
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

/// Renders the image with its requested name. With Docker's own store, the image's id is the digest of its
/// configuration. With containerd's store, the id is the digest of the image's index or manifest.
fn image(view: &ContainerView<'_>) -> nri::Image {
    let document = &view.record.document;
    let name = first_set(&document.spec.user_image, &document.spec.image);
    let id = document.image_id.to_string();
    let digest = document.image_ref.split_once('@').map(|(_, digest)| digest.to_owned());
    let (digest, config_digest) = match view.engine.is_some_and(|engine| engine.containerd_store) {
        true => (id, String::new()),
        false => (digest.unwrap_or_default(), id),
    };
    nri::Image { name, digest, config_digest }
}

/// Path, type (which is also the source) and options of the kernel's file systems that Docker mounts in each container.
const ENGINE_MOUNTS: [(&str, &str, &str); 6] = [
    ("/proc", "proc", "nosuid noexec nodev"),
    ("/dev", "tmpfs", "nosuid strictatime mode=755 size=65536k"),
    ("/dev/pts", "devpts", "nosuid noexec newinstance ptmxmode=0666 mode=0620 gid=5"),
    ("/sys", "sysfs", "nosuid noexec nodev ro"),
    ("/sys/fs/cgroup", "cgroup", "ro nosuid noexec nodev"),
    ("/dev/mqueue", "mqueue", "nosuid noexec nodev"),
];

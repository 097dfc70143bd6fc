//! Creates the configurations of pods and containers in the form that kubelet sends.

use std::collections::BTreeMap;

use dockbridge::wire::cri;

use super::{bridge::Folders, world::World};

/// Creates the configurations of pods and containers for one story.
#[derive(Clone, Debug)]
pub(crate) struct Recipes {
    world: World,
    folders: Folders,
    story: String,
}

impl Recipes {
    pub(crate) fn new(world: &World, folders: &Folders, story: &str) -> Self {
        Self { world: world.clone(), folders: folders.clone(), story: story.replace('_', "-") }
    }

    /// The configuration of a pod with its own network namespace. `name` must be unique in the story.
    pub(crate) fn pod(&self, name: &str) -> cri::PodSandboxConfig {
        let uid = format!("{}-{name}-uid", self.story);
        let log_directory = self.folders.logs.join(&uid);
        // kubelet creates the pod's log directory before RunPodSandbox.
        std::fs::create_dir_all(&log_directory).unwrap_or_default();
        let identity = [
            ("io.kubernetes.pod.name", name),
            ("io.kubernetes.pod.namespace", self.story.as_str()),
            ("io.kubernetes.pod.uid", uid.as_str()),
            ("app", "story"),
        ];
        cri::PodSandboxConfig {
            metadata: Some(cri::PodSandboxMetadata {
                name: name.to_owned(),
                uid: uid.clone(),
                namespace: self.story.clone(),
                attempt: 0,
            }),
            hostname: name.to_owned(),
            log_directory: log_directory.display().to_string(),
            labels: map(&identity),
            annotations: map(&[("story", self.story.as_str())]),
            linux: Some(cri::LinuxPodSandboxConfig {
                cgroup_parent: self.world.pod_cgroup(&uid),
                security_context: Some(cri::LinuxSandboxSecurityContext {
                    namespace_options: Some(namespaces(cri::NamespaceMode::Pod)),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    /// The configuration of a container of the test image that runs a shell line.
    pub(crate) fn container(&self, name: &str, line: &str) -> cri::ContainerConfig {
        cri::ContainerConfig {
            metadata: Some(cri::ContainerMetadata { name: name.to_owned(), attempt: 0 }),
            image: Some(cri::ImageSpec { image: self.world.image.clone(), ..Default::default() }),
            command: ["sh", "-c", line].map(str::to_owned).to_vec(),
            labels: map(&[("io.kubernetes.container.name", name), ("tier", "story")]),
            annotations: map(&[("io.kubernetes.container.hash", "cafe")]),
            log_path: format!("{name}/0.log"),
            linux: Some(cri::LinuxContainerConfig {
                resources: Some(cri::LinuxContainerResources {
                    cpu_shares: 100,
                    memory_limit_in_bytes: 64 << 20,
                    oom_score_adj: 1000,
                    ..Default::default()
                }),
                security_context: Some(cri::LinuxContainerSecurityContext {
                    namespace_options: Some(namespaces(cri::NamespaceMode::Pod)),
                    ..Default::default()
                }),
            }),
            ..Default::default()
        }
    }

    /// The configuration of a container that only waits, and ends at once at SIGTERM.
    pub(crate) fn sleeper(&self, name: &str) -> cri::ContainerConfig {
        self.container(name, "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done")
    }

    /// The configuration of a container that serves HTTP on a port of the pod.
    pub(crate) fn web(&self, name: &str, port: u16) -> cri::ContainerConfig {
        self.container(name, &format!("exec httpd -f -h /www -p {port}"))
    }
}

/// The mapping of a host's TCP port to a port of the pod.
pub(crate) fn port(host: u16, container: u16) -> cri::PortMapping {
    cri::PortMapping {
        protocol: cri::Protocol::Tcp.into(),
        container_port: container.into(),
        host_port: host.into(),
        host_ip: String::new(),
    }
}

/// The namespace options of a pod.
pub(crate) fn namespaces_of(pod: &mut cri::PodSandboxConfig) -> &mut cri::NamespaceOption {
    pod.linux
        .get_or_insert_default()
        .security_context
        .get_or_insert_default()
        .namespace_options
        .get_or_insert_default()
}

/// The namespace options of a container.
pub(crate) fn namespaces_in(container: &mut cri::ContainerConfig) -> &mut cri::NamespaceOption {
    container
        .linux
        .get_or_insert_default()
        .security_context
        .get_or_insert_default()
        .namespace_options
        .get_or_insert_default()
}

/// The namespace options that kubelet sends by default: each container has its own PID namespace.
fn namespaces(network: cri::NamespaceMode) -> cri::NamespaceOption {
    cri::NamespaceOption {
        network: network.into(),
        pid: cri::NamespaceMode::Container.into(),
        ipc: cri::NamespaceMode::Pod.into(),
        ..Default::default()
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

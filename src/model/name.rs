//! Names of containers in Docker: `k8s_<container>_<pod>_<namespace>_<uid>_<attempt>`, as in dockershim, because tools
//! rely on them. A container's labels say what it is, but before its first inspect they count only if its name agrees.

use super::{container::ContainerMetadata, label::SANDBOX_CONTAINER_NAME, sandbox::PodMetadata};

/// The parts of a container's name in Docker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedName {
    /// The name of the container in its pod; `POD` for a sandbox.
    pub container: String,
    pub pod: String,
    pub namespace: String,
    pub uid: String,
    pub attempt: u32,
}

/// The name of a pod's sandbox in Docker.
pub fn sandbox_name(pod: &PodMetadata) -> String {
    join(SANDBOX_CONTAINER_NAME, pod, pod.attempt)
}

/// The name of a workload container in Docker.
pub fn container_name(container: &ContainerMetadata, pod: &PodMetadata) -> String {
    join(&container.name, pod, container.attempt)
}

/// The name to use instead if the engine reports that `name` is in use and dockbridge does not free this name.
pub fn with_suffix(name: &str, random: u32) -> String {
    format!("{name}_{random:08x}")
}

/// Removes the leading slash with which the engine shows the name of a container.
pub fn bare(name: &str) -> &str {
    name.strip_prefix('/').unwrap_or(name)
}

/// Reads the parts of the name of a container without a readable document, such as one of cri-dockerd.
pub fn parse(name: &str) -> Option<ParsedName> {
    let fields: Vec<&str> = bare(name).split('_').collect();
    // A seventh field counts as the suffix of `with_suffix`.
    let (&["k8s", container, pod, namespace, uid, attempt]
    | &["k8s", container, pod, namespace, uid, attempt, _]) = fields.as_slice()
    else {
        return None;
    };
    Some(ParsedName {
        container: container.to_owned(),
        pod: pod.to_owned(),
        namespace: namespace.to_owned(),
        uid: uid.to_owned(),
        attempt: attempt.parse().ok()?,
    })
}

fn join(container: &str, pod: &PodMetadata, attempt: u32) -> String {
    format!("k8s_{container}_{}_{}_{}_{attempt}", pod.name, pod.namespace, pod.uid)
}

//! Container names in Docker: `k8s_<container>_<pod>_<namespace>_<uid>_<attempt>`, the scheme
//! dockershim began and tools rely on. Identity lives in labels; the name only has to be unique
//! and readable.

use super::{container::ContainerMetadata, label::SANDBOX_CONTAINER_NAME, sandbox::PodMetadata};

/// The parts of a name of the scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedName {
    /// Container name; `POD` for a sandbox.
    pub container: String,
    pub pod: String,
    pub namespace: String,
    pub uid: String,
    /// Attempt of the sandbox or of the container.
    pub attempt: u32,
}

/// The name of a sandbox.
pub fn sandbox_name(pod: &PodMetadata) -> String {
    join(SANDBOX_CONTAINER_NAME, pod, pod.attempt)
}

/// The name of a workload container.
pub fn container_name(container: &ContainerMetadata, pod: &PodMetadata) -> String {
    join(&container.name, pod, container.attempt)
}

/// The name to use when the engine reports that `name` is taken by a container it does not show.
pub fn with_suffix(name: &str, random: u32) -> String {
    format!("{name}_{random:08x}")
}

/// A name as the engine shows it, without its leading slash.
pub fn bare(name: &str) -> &str {
    name.strip_prefix('/').unwrap_or(name)
}

/// Reads a name of the scheme; for objects made by others, which carry no document of ours.
pub fn parse(name: &str) -> Option<ParsedName> {
    let fields: Vec<&str> = bare(name).split('_').collect();
    // A seventh field is the suffix of `with_suffix`.
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

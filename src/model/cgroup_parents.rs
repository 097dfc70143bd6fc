//! Which cgroup parents belong to one pod only.
//!
//! A pod is created below the parent that its request names. A kubelet names another one for each
//! pod; other CRI clients may name one for several pods, or none. Usage of such a shared cgroup
//! belongs to no pod.

use std::collections::HashMap;

use super::document::SandboxDocument;

/// The cgroup parents of pods, each with the pod's uid; none for one that several pods share. A pod
/// may have several sandboxes, an earlier and a later one.
#[derive(Clone, Debug)]
pub struct CgroupParents<'a>(HashMap<&'a str, Option<&'a str>>);

impl<'a> CgroupParents<'a> {
    /// The parents of these pods.
    pub fn of(pods: impl IntoIterator<Item = &'a SandboxDocument>) -> Self {
        let mut parents = HashMap::new();
        for pod in pods {
            let uid = pod.spec.metadata.uid.as_str();
            let owner = parents.entry(pod.parent()).or_insert(Some(uid));
            *owner = owner.filter(|known| *known == uid);
        }
        Self(parents)
    }

    /// Whether no other pod has the cgroup parent of this one, which has to be among those given.
    pub fn is_own(&self, pod: &SandboxDocument) -> bool {
        let stated = pod.parent();
        !stated.is_empty() && self.0.get(stated).is_some_and(Option::is_some)
    }
}

impl SandboxDocument {
    /// The cgroup parent of the request; empty for none, and for the root.
    pub fn parent(&self) -> &str {
        self.spec.cgroup_parent.trim_end_matches('/')
    }
}

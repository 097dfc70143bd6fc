//! Which cgroup parents belong to only one pod.
//!
//! By default, kubelet names a different parent cgroup for each pod. Other CRI clients may name the same parent
//! for several pods, or none. The usage of a shared cgroup cannot be attributed to a pod.

use std::collections::HashMap;

use super::document::SandboxDocument;

/// The cgroup parents of pods, each with the UID of its pod, or None if pods with different UIDs share it.
#[derive(Clone, Debug)]
pub struct CgroupParents<'a>(HashMap<&'a str, Option<&'a str>>);

impl<'a> CgroupParents<'a> {
    /// Collects the cgroup parents of these pods.
    pub fn of(pods: impl IntoIterator<Item = &'a SandboxDocument>) -> Self {
        let mut parents = HashMap::new();
        for pod in pods {
            let uid = pod.spec.metadata.uid.as_str();
            let owner = parents.entry(pod.parent()).or_insert(Some(uid));
            *owner = owner.filter(|known| *known == uid);
        }
        Self(parents)
    }

    /// Whether this pod has a cgroup parent, not the root cgroup, that no pod with another UID has. Knows only the
    /// pods that were passed to [`Self::of`], and `pod` must be one of them.
    pub fn is_own(&self, pod: &SandboxDocument) -> bool {
        let stated = pod.parent();
        !stated.is_empty() && self.0.get(stated).is_some_and(Option::is_some)
    }
}

impl SandboxDocument {
    /// The cgroup parent in the pod's request. Empty for no parent or the root cgroup.
    pub fn parent(&self) -> &str {
        self.spec.cgroup_parent.trim_end_matches('/')
    }
}

//! Which cgroup parents belong to one pod only.
//!
//! A pod is created below the parent that its request names. kubelet names a different parent for each pod.
//! Other CRI clients may use one parent for several pods, or none. The usage of a shared cgroup belongs to
//! no pod.

use std::collections::HashMap;

use super::document::SandboxDocument;

/// The cgroup parents of pods, each with the pod's uid, or none if several pods share it. A pod may have
/// several sandboxes, an earlier and a later one.
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

    /// Whether no other pod has the cgroup parent of this pod. The pod must be one of those passed to
    /// [`Self::of`].
    pub fn is_own(&self, pod: &SandboxDocument) -> bool {
        let stated = pod.parent();
        !stated.is_empty() && self.0.get(stated).is_some_and(Option::is_some)
    }
}

impl SandboxDocument {
    /// The cgroup parent in the request. Empty if there is none, or if it is the root cgroup.
    pub fn parent(&self) -> &str {
        self.spec.cgroup_parent.trim_end_matches('/')
    }
}

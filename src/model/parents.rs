//! Which control groups around containers are one pod's alone.
//!
//! A pod is put below the parent it states. A kubelet states another one for each pod; others who
//! speak the CRI may state one for several, or none. What such a group counts is nobody's.

use std::collections::HashMap;

use super::document::SandboxDocument;

/// The parents that pods state, each with the pod's uid; none for one that several share. Of one
/// pod there may be several sandboxes, an earlier one and a later.
#[derive(Clone, Debug)]
pub struct Parents<'a>(HashMap<&'a str, Option<&'a str>>);

impl<'a> Parents<'a> {
    /// Those that these pods state.
    pub fn of(pods: impl IntoIterator<Item = &'a SandboxDocument>) -> Self {
        let mut parents = HashMap::new();
        for pod in pods {
            let uid = pod.spec.metadata.uid.as_str();
            let owner = parents.entry(pod.parent()).or_insert(Some(uid));
            *owner = owner.filter(|known| *known == uid);
        }
        Self(parents)
    }

    /// Whether the group around this pod's containers, one of those told of, is no other pod's.
    pub fn is_own(&self, pod: &SandboxDocument) -> bool {
        let stated = pod.parent();
        !stated.is_empty() && self.0.get(stated).is_some_and(Option::is_some)
    }
}

impl SandboxDocument {
    /// The control group the pod was to be in; empty for none, and for the root.
    pub fn parent(&self) -> &str {
        self.spec.cgroup_parent.trim_end_matches('/')
    }
}

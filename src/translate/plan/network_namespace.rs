//! Who makes the network namespace of a pod, and when CNI plugins connect it.

use crate::model::{document::SandboxDocument, engine::EngineInfo, network::NetworkMode};

/// Where the network namespace of a pod comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkNamespace {
    /// The engine makes it with the pause container, or the pod is on another network.
    Engine,
    /// dockbridge makes it before the start of the pause container, which joins it by our OCI
    /// runtime. CNI plugins connect it after the start: the pod's network sysctls are set first, as
    /// in a namespace of the engine's.
    ConnectedAfterStart,
    /// dockbridge makes it as well, and CNI plugins connect it while the pause container starts.
    ConnectedDuringStart,
}

impl NetworkNamespace {
    /// With our OCI runtime dockbridge makes it, so that CNI plugins and the engine work at the same time.
    pub(super) fn of(document: &SandboxDocument, engine: &EngineInfo) -> Self {
        let spec = &document.spec;
        if document.network != NetworkMode::Cni || engine.edits_runtime(&spec.handler).is_err() {
            return Self::Engine;
        }
        match spec.sysctls.keys().any(|name| name.starts_with("net.") || name.starts_with("net/")) {
            true => Self::ConnectedAfterStart,
            false => Self::ConnectedDuringStart,
        }
    }
}

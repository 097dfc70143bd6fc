//! Which program creates the network namespace of a pod, and when CNI plugins connect it.

use crate::model::{document::SandboxDocument, engine::EngineInfo, network::NetworkMode};

/// How the network namespace of a pod is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkNamespace {
    /// The engine creates it with the pause container, or the pod uses another network.
    Engine,
    /// dockbridge creates it before it starts the pause container, which joins it through our OCI runtime.
    /// CNI plugins connect it after the start, because the pod's network sysctls must be set first, as in a
    /// namespace of the engine.
    ConnectedAfterStart,
    /// dockbridge creates it, and CNI plugins connect it while the pause container starts.
    ConnectedDuringStart,
}

impl NetworkNamespace {
    /// With our OCI runtime, dockbridge creates it, so that CNI plugins and the engine work at the same time.
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

//! Determines who creates the network namespace of a pod, and when CNI plugins connect it.

use crate::model::{document::SandboxDocument, engine::EngineInfo, network::NetworkMode};

/// Who creates the network namespace of a pod, and when CNI plugins connect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkNamespace {
    /// The engine creates the namespace with the pause container, unless the pod uses the host's network.
    Engine,
    /// dockbridge creates the namespace before it starts the pause container, and dockbridge-runtime makes
    /// the pause container join it. CNI plugins connect the namespace after the start, because the OCI
    /// runtime must first set the pod's network sysctls.
    ConnectedAfterStart,
    /// dockbridge creates the namespace, and CNI plugins connect it while the pause container starts.
    ConnectedDuringStart,
}

impl NetworkNamespace {
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

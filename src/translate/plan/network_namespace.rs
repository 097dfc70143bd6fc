//! Who makes the network namespace of a pod.

use crate::model::{document::SandboxDocument, engine::EngineInfo, network::NetworkMode};

/// Where the network namespace of a pod comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkNamespace {
    /// The engine makes it with the pause container, or the pod is on another network.
    Engine,
    /// It is made before the start of the pause container, which joins it by our OCI runtime.
    /// Plugins work in it after the start: the pod's network settings (sysctls) come first, as
    /// with the engine's.
    Made,
    /// As [`Self::Made`], and plugins work in it beside the start.
    MadeForPlugins,
}

impl NetworkNamespace {
    /// With our runtime it is made beforehand, so that CNI plugins and the engine work at the same time.
    pub(super) fn of(document: &SandboxDocument, engine: &EngineInfo) -> Self {
        let spec = &document.spec;
        if document.network != NetworkMode::Cni || engine.edits_runtime(&spec.handler).is_err() {
            return Self::Engine;
        }
        match spec.sysctls.keys().any(|name| name.starts_with("net.") || name.starts_with("net/")) {
            true => Self::Made,
            false => Self::MadeForPlugins,
        }
    }
}

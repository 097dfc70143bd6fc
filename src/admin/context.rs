//! What the admin server reads: the state of the services, and their metrics.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::{
    config::source::Variables,
    network::service::Network,
    store::handle::Store,
    telemetry::{
        log::LogControl,
        registry::{Registry, Sample},
    },
};

/// The services that the admin server reads. Clones read the same.
#[derive(Clone, Debug)]
pub struct AdminContext {
    /// The state of pods, containers and the engine.
    pub store: Store,
    /// Whether pods can be connected.
    pub network: Network,
    pub log: LogControl,
    /// Who reads the settings again.
    pub reloads: mpsc::Sender<ReloadRequest>,
    /// All metrics, and running operations.
    pub registry: Arc<Registry>,
}

/// Asks for the settings to be read again.
#[derive(Debug)]
pub struct ReloadRequest {
    /// Whether to apply them. If not, the answer only says what would change.
    pub apply: bool,
    /// Replaces the environment that the process was started with.
    pub variables: Option<Variables>,
    /// Gets the text for the caller: of success, or why nothing was changed.
    pub answer: oneshot::Sender<Result<String, String>>,
}

/// Registers our version, the engine's, and the API between them.
pub fn register_build(store: &Store, registry: &mut Registry) {
    let store = store.clone();
    registry.register_fn(
        "dockbridge_build_info",
        &["version", "engine", "api"],
        "1; the version of dockbridge, of the engine, and of the API between them",
        move || {
            let now = store.snapshot();
            let engine = now.engine.as_ref();
            let version = engine.map(|engine| engine.version.clone()).unwrap_or_default();
            let api = engine.map(|engine| engine.api.to_string()).unwrap_or_default();
            vec![Sample::labelled([env!("CARGO_PKG_VERSION"), &version, &api], 1.0)]
        },
    );
}

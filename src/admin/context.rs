//! What the admin server reads: the state of the services, and their metrics.

use std::sync::Arc;

use crate::{
    network::service::Network,
    store::handle::Store,
    telemetry::{
        log::LevelControl,
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
    /// The level of the log.
    pub level: LevelControl,
    /// All metrics, and running operations.
    pub registry: Arc<Registry>,
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

//! What the window shows: the rooms behind it, and all that they have given to be counted.

use std::sync::Arc;

use crate::{
    network::service::Network,
    store::handle::Store,
    telemetry::{
        log::LevelControl,
        registry::{Registry, Sample},
    },
};

/// The rooms behind the window. Clones show the same.
#[derive(Clone, Debug)]
pub struct Window {
    /// What is true now.
    pub store: Store,
    /// Whether pods can be connected.
    pub network: Network,
    /// How much is logged.
    pub level: LevelControl,
    /// What is counted, and what is under way.
    pub registry: Arc<Registry>,
}

/// Shows what runs: our version, the engine's, and the API spoken with it.
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

//! What the admin server uses: the state of the services, their metrics, and requests to reload the settings.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::{
    config::source::Variables,
    network::service::Network,
    store::handle::Store,
    telemetry::registry::{Registry, Sample},
};

/// The services that the admin server uses, shared by all clones of this value.
#[derive(Clone, Debug)]
pub struct AdminContext {
    /// The state of pods, containers, images and the engine.
    pub store: Store,
    pub network: Network,
    /// Sends requests to the task that reads the settings again.
    pub reloads: mpsc::Sender<ReloadRequest>,
    pub registry: Arc<Registry>,
}

/// A request to read the settings again.
#[derive(Debug)]
pub struct ReloadRequest {
    /// Whether to apply the new settings. If false, the answer only says what a reload would change.
    pub apply: bool,
    /// Environment variables to use instead of those that dockbridge has.
    pub variables: Option<Variables>,
    /// Receives the text for the admin client: which settings were or would be changed, or the error.
    pub answer: oneshot::Sender<Result<String, String>>,
}

/// Registers the metric with the versions of dockbridge and the engine, and the API version that they use.
pub fn register_build(store: &Store, registry: &mut Registry) {
    let store = store.clone();
    registry.register_fn(
        "dockbridge_build_info",
        &["version", "engine", "api"],
        "Always 1; the labels have the versions of dockbridge, of Docker and of the Engine API",
        move || {
            let now = store.snapshot();
            let engine = now.engine.as_ref();
            let version = engine.map(|engine| engine.version.clone()).unwrap_or_default();
            let api = engine.map(|engine| engine.api.to_string()).unwrap_or_default();
            vec![Sample::labelled([env!("CARGO_PKG_VERSION"), &version, &api], 1.0)]
        },
    );
}

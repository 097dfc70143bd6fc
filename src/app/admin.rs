//! What the admin server shows: the state of the store and of the network, and the metrics.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{reload::ReloadMetrics, services::Services};
use crate::{
    admin::{
        context::{AdminContext, ReloadRequest, register_build},
        process,
    },
    rpc::runtime::RuntimeRpc,
    telemetry::registry::{RegisterMetrics, Registry},
};

/// Registers the metrics of all services for the admin server.
pub(super) fn context(
    services: &Services,
    (reload_metrics, reloads): (&ReloadMetrics, mpsc::Sender<ReloadRequest>),
) -> AdminContext {
    let RuntimeRpc { store, network, .. } = &services.runtime;
    let mut registry = Registry::default();
    let nri = services.node.nri.metrics();
    let metrics: [&dyn RegisterMetrics; 10] = [
        &services.runtime.metrics,
        services.node.engine.metrics(),
        store,
        &services.node.logs.metrics,
        network.metrics(),
        &services.image.images.metrics,
        &services.commands.metrics,
        &nri,
        &services.runtime.streaming.metrics,
        reload_metrics,
    ];
    for one in metrics {
        one.register(&mut registry);
    }
    process::register(&mut registry);
    register_build(store, &mut registry);
    let (store, network) = (store.clone(), network.clone());
    let registry = Arc::new(registry);
    AdminContext { store, network, reloads, registry }
}

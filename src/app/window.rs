//! What the operator sees: the rooms behind the window, and the metrics of all rooms collected.

use std::sync::Arc;

use super::Rooms;
use crate::{
    admin::{
        process,
        window::{Window, register_build},
    },
    rpc::runtime::RuntimeRpc,
    telemetry::{
        log::LevelControl,
        registry::{RegisterMetrics, Registry},
    },
};

/// What the operator sees of the rooms.
pub(super) fn window(rooms: &Rooms, level: LevelControl) -> Window {
    let RuntimeRpc { store, network, .. } = &rooms.runtime;
    let mut registry = Registry::default();
    let metrics: [&dyn RegisterMetrics; 8] = [
        &rooms.runtime.metrics,
        rooms.engine.metrics(),
        store,
        rooms.logs.metrics(),
        network.metrics(),
        rooms.image.images.metrics(),
        rooms.runtime.containers.metrics(),
        rooms.runtime.streaming.metrics(),
    ];
    for room in metrics {
        room.register(&mut registry);
    }
    process::register(&mut registry);
    register_build(store, &mut registry);
    let (store, network) = (store.clone(), network.clone());
    let registry = Arc::new(registry);
    Window { store, network, level, registry }
}

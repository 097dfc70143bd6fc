//! What the operator sees: the rooms behind the window, and the meters of all rooms collected.

use std::sync::Arc;

use super::Rooms;
use crate::{
    admin::{
        process,
        window::{Window, register_build},
    },
    rpc::runtime::RuntimeRpc,
    telemetry::{log::LevelControl, meter::Meters, registry::Registry},
};

/// What the operator sees of the rooms.
pub(super) fn window(rooms: &Rooms, level: LevelControl) -> Window {
    let RuntimeRpc { store, network, .. } = &rooms.runtime;
    let mut registry = Registry::default();
    let meters: [&dyn Meters; 8] = [
        &rooms.runtime.meters,
        rooms.engine.meters(),
        store,
        rooms.logs.meters(),
        network.meters(),
        rooms.image.images.meters(),
        rooms.runtime.containers.meters(),
        rooms.runtime.streaming.meters(),
    ];
    for room in meters {
        room.register(&mut registry);
    }
    process::register(&mut registry);
    register_build(store, &mut registry);
    let (store, network) = (store.clone(), network.clone());
    let registry = Arc::new(registry);
    Window { store, network, level, registry }
}

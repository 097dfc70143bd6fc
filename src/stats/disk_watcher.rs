//! Looks at the disks in the background, since a file system may hang.

use std::{
    sync::Weak,
    time::{Duration, Instant},
};

use tokio::{task::spawn_blocking, time::sleep};

use super::{collector::Collector, disks};
use crate::{engine::storage, store::handle::Store};

/// Looks until nobody wants to know any more. A look that hangs is waited for, by nobody else.
pub(super) async fn watch(collector: Weak<Collector>, store: Store) {
    let mut known = None;
    while let Some(proc) = collector.upgrade().map(|collector| collector.proc.clone()) {
        // A closed store answers at once.
        let engine = store.wait(LOOK_EVERY, |now| now.engine.clone()).await;
        let place = match engine {
            Some(engine) => Some(storage::mountpoint(&engine).await),
            None => None,
        };
        // Only a panic, which is told of, or the end of everything.
        let looked = spawn_blocking(move || {
            let disks = disks::look(&proc, place.as_deref(), &mut known);
            (disks, known)
        });
        let Ok((disks, held)) = looked.await else { return };
        known = held;
        if let Some(collector) = collector.upgrade() {
            collector.disks.note(disks, Instant::now());
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(10);

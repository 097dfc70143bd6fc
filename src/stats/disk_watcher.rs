//! Reads the disks in the background, since a file system may hang.

use std::{
    sync::Weak,
    time::{Duration, Instant},
};

use tokio::{task::spawn_blocking, time::sleep};

use super::{collector::Collector, disks};
use crate::{engine::storage, store::handle::Store};

/// Reads them until the collector is dropped. Only this task waits for a read that hangs.
pub(super) async fn watch(collector: Weak<Collector>, store: Store) {
    let mut known = None;
    while let Some(proc) = collector.upgrade().map(|collector| collector.proc.clone()) {
        // A closed store answers at once.
        let engine = store.wait(READ_EVERY, |now| now.engine.clone()).await;
        let path = match engine {
            Some(engine) => Some(storage::mountpoint(&engine).await),
            None => None,
        };
        // It only fails when it panics, which is logged, or when the runtime ends.
        let read = spawn_blocking(move || {
            let disks = disks::read(&proc, path.as_deref(), &mut known);
            (disks, known)
        });
        let Ok((disks, held)) = read.await else { return };
        known = held;
        if let Some(collector) = collector.upgrade() {
            collector.disks.set(disks, Instant::now());
        }
        sleep(READ_EVERY).await;
    }
}

/// Time between two reads.
const READ_EVERY: Duration = Duration::from_secs(10);

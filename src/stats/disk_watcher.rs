//! Reads data about the disks in the background, because a file system may hang.

use std::{
    sync::Weak,
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{collector::Collector, disks};
use crate::{concurrency::blocking::blocking, engine::storage, store::handle::Store};

/// Reads data about the disks at intervals until the collector is dropped.
pub(super) async fn watch(collector: Weak<Collector>, store: Store) {
    let mut known = None;
    while let Some(proc) = collector.upgrade().map(|collector| collector.cgroups.proc.clone()) {
        // If the store has ended, `wait` returns at once.
        let engine = store.wait(READ_EVERY, |now| now.engine.clone()).await;
        let path = match engine {
            Some(engine) => Some(storage::image_directory(&engine).await),
            None => None,
        };
        let disks;
        (disks, known) = blocking(move || {
            let disks = disks::read(&proc, path.as_deref(), &mut known);
            (disks, known)
        })
        .await;
        if let Some(collector) = collector.upgrade() {
            collector.disks.set(disks, Instant::now());
        }
        sleep(READ_EVERY).await;
    }
}

const READ_EVERY: Duration = Duration::from_secs(10);

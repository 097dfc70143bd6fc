//! Keeps writes to one file in the order in which they were requested.
//!
//! A file is written on a blocking thread, which continues when the caller is cancelled. Without this
//! module, it could replace newer content with older content.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

/// For each key that is being written: the number of the last write.
#[derive(Debug)]
pub(super) struct WriteOrder<K> {
    next: AtomicU64,
    writers: Mutex<HashMap<K, Arc<Mutex<u64>>>>,
}

/// The number of a write of one key, taken when the write is requested.
pub(super) struct OrderedWrite<K: Eq + Hash> {
    number: u64,
    key: K,
    last: Arc<Mutex<u64>>,
    order: Arc<WriteOrder<K>>,
}

impl<K: Clone + Eq + Hash> WriteOrder<K> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { next: AtomicU64::new(1), writers: Mutex::default() })
    }

    pub(super) fn request(self: &Arc<Self>, key: &K) -> OrderedWrite<K> {
        let mut writers = self.writers.lock();
        let last = Arc::clone(writers.entry(key.clone()).or_default());
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        OrderedWrite { number, key: key.clone(), last, order: Arc::clone(self) }
    }
}

impl<K: Eq + Hash> OrderedWrite<K> {
    /// Runs `work`, or returns `None` if a later write has already run.
    pub(super) fn run<T>(self, work: impl FnOnce() -> T) -> Option<T> {
        let mut last = self.last.lock();
        if *last > self.number {
            return None;
        }
        *last = self.number;
        Some(work())
    }
}

impl<K: Eq + Hash> Drop for OrderedWrite<K> {
    fn drop(&mut self) {
        let mut writers = self.order.writers.lock();
        // Only the map and this write have it, so no other write waits.
        if Arc::strong_count(&self.last) == 2 {
            writers.remove(&self.key);
        }
    }
}

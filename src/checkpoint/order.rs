//! Keeps writes to one file in the order they were asked for.
//!
//! A file is written on a blocking thread, and a caller that gives up leaves that thread running:
//! without this, an older text could land after a newer one.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Per key: the turn that last wrote. Keys nobody is writing to are forgotten.
#[derive(Debug)]
pub(super) struct Order<K> {
    next: AtomicU64,
    writers: Mutex<HashMap<K, Arc<Mutex<u64>>>>,
}

/// A place in the order of one key, taken when the write is asked for.
pub(super) struct Turn<K: Eq + Hash> {
    number: u64,
    key: K,
    last: Arc<Mutex<u64>>,
    order: Arc<Order<K>>,
}

impl<K: Clone + Eq + Hash> Order<K> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { next: AtomicU64::new(1), writers: Mutex::default() })
    }

    pub(super) fn turn(self: &Arc<Self>, key: &K) -> Turn<K> {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let last = Arc::clone(writers.entry(key.clone()).or_default());
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Turn { number, key: key.clone(), last, order: Arc::clone(self) }
    }
}

impl<K: Eq + Hash> Turn<K> {
    /// Does `work` unless a later turn was done already; `None` then.
    pub(super) fn take<T>(self, work: impl FnOnce() -> T) -> Option<T> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last > self.number {
            return None;
        }
        *last = self.number;
        Some(work())
    }
}

impl<K: Eq + Hash> Drop for Turn<K> {
    fn drop(&mut self) {
        let mut writers = self.order.writers.lock().unwrap_or_else(PoisonError::into_inner);
        // The table's and this turn's: nobody else is in the queue.
        if Arc::strong_count(&self.last) == 2 {
            writers.remove(&self.key);
        }
    }
}

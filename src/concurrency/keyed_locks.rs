//! Read-write locks by name, created on demand and dropped with their last guard.
//!
//! Calls that need a pod to stay as it is (create a container in it) read-lock the pod; calls
//! that change it (run, stop, remove) write-lock it. tokio's lock is fair, so a writer waits
//! for those before it and goes before those after it.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// A table of locks. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct KeyedLocks {
    table: Arc<Mutex<HashMap<String, Weak<RwLock<()>>>>>,
}

impl KeyedLocks {
    /// A read lock: waits until no caller changes `name`; none does while the guard lives.
    pub async fn read(&self, name: &str) -> OwnedRwLockReadGuard<()> {
        self.lock_of(name).read_owned().await
    }

    /// A write lock: waits until no caller uses `name`; it is the caller's while the guard lives.
    pub async fn write(&self, name: &str) -> OwnedRwLockWriteGuard<()> {
        self.lock_of(name).write_owned().await
    }

    /// A write lock without waiting, if no caller uses `name` or waits for it: for
    /// work that can be left, as a waiting writer holds up all who come after it.
    pub fn try_write(&self, name: &str) -> Option<OwnedRwLockWriteGuard<()>> {
        self.lock_of(name).try_write_owned().ok()
    }

    fn lock_of(&self, name: &str) -> Arc<RwLock<()>> {
        let mut table = self.table.lock();
        if let Some(lock) = table.get(name).and_then(Weak::upgrade) {
            return lock;
        }
        if table.len() >= SWEEP_AT {
            table.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::new(RwLock::new(()));
        table.insert(name.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

/// Dead entries are swept when the table has grown to this many names.
const SWEEP_AT: usize = 512;

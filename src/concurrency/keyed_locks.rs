//! Read-write locks by name. A lock is created on demand and dropped with its last guard.
//!
//! Calls that need a pod to stay unchanged (create or start a container) read-lock the pod. Calls that change a pod
//! (run, stop, remove) write-lock the pod. tokio's lock is fair: callers get a lock in the order of their calls.

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::named::Named;

/// A table of locks, shared by all clones of this value.
#[derive(Clone, Debug, Default)]
pub struct KeyedLocks {
    locks: Arc<Named<RwLock<()>>>,
}

impl KeyedLocks {
    /// Takes a read lock. Waits while another caller has the write lock of `name`, or requested it earlier and still
    /// waits for it.
    pub async fn read(&self, name: &str) -> OwnedRwLockReadGuard<()> {
        self.locks.of(name).read_owned().await
    }

    /// Takes a write lock: waits until no other caller has a lock of `name`.
    pub async fn write(&self, name: &str) -> OwnedRwLockWriteGuard<()> {
        self.locks.of(name).write_owned().await
    }

    /// Takes a write lock, or returns None if a caller has a lock of `name` or waits for one. Does not wait, because a
    /// waiting writer would delay all later callers.
    pub fn try_write(&self, name: &str) -> Option<OwnedRwLockWriteGuard<()>> {
        self.locks.of(name).try_write_owned().ok()
    }
}

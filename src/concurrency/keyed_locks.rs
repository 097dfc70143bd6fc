//! Read-write locks by name. They are created on demand and dropped with their last guard.
//!
//! Calls that need a pod to stay unchanged (create a container in it) read-lock the pod. Calls that change
//! it (run, stop, remove) write-lock it. tokio's lock is fair: a writer waits for earlier callers and runs
//! before later ones.

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::named::Named;

/// A table of locks. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct KeyedLocks {
    locks: Arc<Named<RwLock<()>>>,
}

impl KeyedLocks {
    /// A read lock: waits until no caller changes `name`. While the guard exists, no caller changes it.
    pub async fn read(&self, name: &str) -> OwnedRwLockReadGuard<()> {
        self.locks.of(name).read_owned().await
    }

    /// A write lock: waits until no caller uses `name`. While the guard exists, no other caller uses it.
    pub async fn write(&self, name: &str) -> OwnedRwLockWriteGuard<()> {
        self.locks.of(name).write_owned().await
    }

    /// A write lock without waiting, if no caller uses `name` or waits for it. It is for work that can be
    /// skipped, because a waiting writer delays all later callers.
    pub fn try_write(&self, name: &str) -> Option<OwnedRwLockWriteGuard<()>> {
        self.locks.of(name).try_write_owned().ok()
    }
}

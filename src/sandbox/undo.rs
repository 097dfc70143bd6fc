//! Undoes a failed call: each step that acquires a resource adds a step that releases it.

use std::{error::Error, future::Future};

use futures_util::future::BoxFuture;
use tokio::sync::OwnedRwLockWriteGuard;

use crate::error::chain;

/// The steps that release the resources that a call has acquired.
#[derive(Default)]
pub struct Undo {
    /// What each step does, and the step.
    steps: Vec<(&'static str, BoxFuture<'static, Result<(), String>>)>,
    locks: Vec<OwnedRwLockWriteGuard<()>>,
}

impl Undo {
    /// Adds the release of a resource that the call has just acquired, or is about to acquire.
    pub fn push<E: Error>(
        &mut self,
        what: &'static str,
        release: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let release = Box::pin(async move { release.await.map_err(|error| chain(&error)) });
        self.steps.push((what, release));
    }

    /// Holds a lock until the call has succeeded or its roll-back has ended.
    pub fn hold(&mut self, lock: OwnedRwLockWriteGuard<()>) {
        self.locks.push(lock);
    }

    /// Releases all resources, the newest first, even if some releases fail. Returns the failures with their reasons.
    pub async fn roll_back(mut self) -> Vec<String> {
        let mut failures = Vec::new();
        while let Some((what, release)) = self.steps.pop() {
            if let Err(error) = release.await {
                failures.push(format!("{what}: {error}"));
            }
        }
        failures
    }

    /// Drops the steps without running them, because the call has succeeded.
    pub fn keep(self) {
        drop(self.steps);
    }
}

//! Undo of a failed call: each step that acquires a resource adds its release.
//!
//! Rolls back in reverse order, continues after a failure and reports all failures.

use std::{error::Error, future::Future, pin::Pin};

use tokio::sync::OwnedRwLockWriteGuard;

use crate::error::chain;

/// The releases of the resources that a call has acquired.
#[derive(Default)]
pub struct Undo {
    steps: Vec<Release>,
    locks: Vec<OwnedRwLockWriteGuard<()>>,
}

struct Release {
    what: &'static str,
    release: Pin<Box<dyn Future<Output = Result<(), String>> + Send>>,
}

impl Undo {
    /// Adds the release of a resource that was just acquired, or is about to be.
    pub fn push<E: Error>(
        &mut self,
        what: &'static str,
        release: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let release = Box::pin(async move { release.await.map_err(|error| chain(&error)) });
        self.steps.push(Release { what, release });
    }

    /// Holds a lock until the call has succeeded or is rolled back.
    pub fn hold(&mut self, lock: OwnedRwLockWriteGuard<()>) {
        self.locks.push(lock);
    }

    /// Releases everything, newest first. Returns the failures with their reasons.
    pub async fn roll_back(mut self) -> Vec<String> {
        let mut failures = Vec::new();
        while let Some(step) = self.steps.pop() {
            if let Err(error) = step.release.await {
                failures.push(format!("{}: {error}", step.what));
            }
        }
        failures
    }

    /// The call succeeded, so nothing is released.
    pub fn keep(self) {
        drop(self.steps);
    }
}

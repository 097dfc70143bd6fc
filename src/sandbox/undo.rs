//! Undo is a value: every acquired thing pushes its release.
//!
//! Rolling back goes in reverse order, carries on after a failure and reports all of them.

use std::{error::Error, future::Future, pin::Pin};

use tokio::sync::OwnedRwLockWriteGuard;

use crate::error::chain;

/// Releases of what a verb has acquired so far.
#[derive(Default)]
pub struct Undo {
    steps: Vec<Step>,
    locks: Vec<OwnedRwLockWriteGuard<()>>,
}

struct Step {
    what: &'static str,
    release: Pin<Box<dyn Future<Output = Result<(), String>> + Send>>,
}

impl Undo {
    /// Remembers how to release what was just acquired, or is about to be.
    pub fn push<E: Error>(
        &mut self,
        what: &'static str,
        release: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let release = Box::pin(async move { release.await.map_err(|error| chain(&error)) });
        self.steps.push(Step { what, release });
    }

    /// Keeps a lock until what it guards is whole, or released.
    pub fn hold(&mut self, lock: OwnedRwLockWriteGuard<()>) {
        self.locks.push(lock);
    }

    /// Releases everything, newest first; returns what could not be released and why.
    pub async fn roll_back(mut self) -> Vec<String> {
        let mut failures = Vec::new();
        while let Some(step) = self.steps.pop() {
            if let Err(error) = step.release.await {
                failures.push(format!("{}: {error}", step.what));
            }
        }
        failures
    }

    /// The verb succeeded: nothing is released.
    pub fn keep(self) {
        drop(self.steps);
    }
}

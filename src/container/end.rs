//! Ending a main process for certain; workloads and pauses end alike.
//!
//! An answer of the engine is not the end yet: calls return when the store shows it.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use super::error::ContainerError;
use crate::{
    engine::{client::Engine, error::EngineError},
    store::{handle::Store, snapshot::Snapshot},
};

/// Sends SIGKILL. [`await_end`] waits for the effect.
///
/// # Errors
/// The engine fails.
pub async fn kill(engine: &Engine, id: &str) -> Result<(), ContainerError> {
    ended_is_fine(engine.kill_container(id, "SIGKILL").await)
}

/// Waits until the store no longer shows a container running, by the word of `runs`.
///
/// # Errors
/// The engine does not say, or the process survives its SIGKILL.
pub async fn await_end(
    store: &Store,
    id: &str,
    runs: impl Fn(&Snapshot) -> bool,
) -> Result<(), ContainerError> {
    let ended = |now: &Snapshot| (!runs(now)).then_some(());
    if store.wait(EVENT_TIMEOUT, ended).await.is_some() {
        return Ok(());
    }
    warn!(container = id, "no exit event from Docker yet; inspecting the container");
    let until = Instant::now() + KILL_TIMEOUT;
    while Instant::now() < until {
        store.refresh_container(id).await?;
        if !runs(&store.snapshot()) {
            return Ok(());
        }
        sleep(POLL_EVERY).await;
    }
    Err(ContainerError::Unkillable { id: id.to_owned(), time_limit: KILL_TIMEOUT })
}

/// A container that is gone or not running has ended already.
pub(super) fn ended_is_fine(answer: Result<(), EngineError>) -> Result<(), ContainerError> {
    match answer {
        Err(EngineError::NotFound { .. } | EngineError::Conflict { .. }) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// After a stop or kill was answered, how long the exit event may take before we ask.
const EVENT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a process may take to disappear after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// How often we ask meanwhile.
const POLL_EVERY: Duration = Duration::from_millis(200);

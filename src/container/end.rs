//! Ends a main process and makes sure that it has ended. Pause and other containers end in the same way.
//!
//! The engine's answer does not prove the end, so calls return only when the store shows it.

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

/// Waits until the store no longer shows the container as running, which `runs` decides.
///
/// # Errors
/// The engine does not answer, or the process survives SIGKILL.
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

/// A container that does not exist or does not run has already ended.
pub(super) fn ended_is_fine(answer: Result<(), EngineError>) -> Result<(), ContainerError> {
    match answer {
        Err(EngineError::NotFound { .. } | EngineError::Conflict { .. }) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// How long the exit event may take after the answer to a stop or kill. After that the engine is asked.
const EVENT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a process may take to disappear after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the engine is asked.
const POLL_EVERY: Duration = Duration::from_millis(200);

//! Starts a container or pause container. If the engine's answer is lost, finds out whether the container was started.

use std::time::Duration;

use super::node::Node;
use crate::{
    engine::error::EngineError,
    error::Failure,
    model::{
        engine::Transition,
        record::{ExitReason, Process},
    },
    store::{engine_call::EngineCall, snapshot::Snapshot},
};

/// The result of a start.
#[derive(Debug)]
pub struct Start {
    /// Whether the engine started the container. If the engine's answer was lost, a successful inspect decides this.
    pub started: Result<(), EngineError>,
    /// Whether the store shows the container's state after the start.
    pub seen: Result<(), Failure>,
}

impl Start {
    /// Whether the container may run although the inspect after the start failed.
    pub fn may_run_unseen(&self) -> bool {
        let open = |error: &EngineError| error.leaves_outcome_open();
        self.seen.is_err() && self.started.as_ref().err().is_none_or(open)
    }
}

/// Starts a container. The caller must know that the container's command has never run: the engine would start an
/// ended container again. `extra` is added to the deadline of the engine call.
pub async fn start_once(node: &Node, id: &str, extra: Duration) -> Start {
    let starting = EngineCall::begin(Transition::Started);
    let answer = node.engine.start_container(id, extra).await;
    // Refreshes the container's record even after a failure. If the OCI runtime could not start the process, the
    // record then has the reason, and the container counts as exited.
    let seen = match answer {
        Ok(()) => node.store.refresh_after(starting, id).await,
        Err(_) => node.store.refresh_container(id).await,
    };
    let started = match answer {
        Err(error) if error.leaves_outcome_open() && seen.is_ok() => {
            if was_started(&node.store.snapshot(), id) { Ok(()) } else { Err(error) }
        }
        answer => answer,
    };
    Start { started, seen }
}

/// Whether a container's command has ever run, according to its inspect. The caller must have refreshed the record:
/// for an exited container that is only listed, this returns false.
pub fn was_started(now: &Snapshot, id: &str) -> bool {
    let pause = || now.sandbox(id).and_then(|pause| pause.process.as_ref());
    let process = now.container(id).map(|container| &container.process).or_else(pause);
    match process {
        Some(Process::Exited { reason, .. }) => *reason != ExitReason::CannotRun,
        Some(process) => process.is_running(),
        None => false,
    }
}

//! The progress of a log, for callers that wait for it.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, error::Elapsed, timeout, timeout_at},
};

use crate::model::time::Nanos;

/// The state of a log that its task reports to callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) opened: bool,
    /// How many bytes of the engine's log this process has converted, or compared with the CRI files in a search.
    pub(super) bytes: u64,
    /// The start time of the container's latest run, if that run has ended.
    pub(super) ended: Option<Nanos>,
    /// Whether the whole log of the ended run was written, or cannot be written.
    pub(super) complete: bool,
    /// Whether a caller stopped waiting, so that the container was shown as exited before its log was complete.
    pub(super) given_up: bool,
    /// How many bytes of the engine's log are not converted yet; None if unknown.
    pub(super) remaining: Option<u64>,
}

/// Waits until the whole log of this run is written or cannot be written. Does not wait if another caller has waited
/// too long for the log of this run, if this run has not ended or is not the container's latest run, or if no task
/// writes the log any more.
///
/// # Errors
/// The caller has waited too long; the error is the last known state of the log.
pub(super) async fn completion(
    mut log: watch::Receiver<Progress>,
    run: Nanos,
) -> Result<(), Progress> {
    let give_up = Instant::now() + LONGEST_WAIT;
    loop {
        let now = *log.borrow_and_update();
        if now.complete || now.given_up || now.ended != Some(run) {
            return Ok(());
        }
        let until = give_up.min(Instant::now() + MAX_STALL);
        let change = log.wait_for(|later| {
            later.complete || later.bytes != now.bytes || later.ended != now.ended
        });
        let Ok(is_written) = timeout_at(until, change).await.map(|change| change.is_ok()) else {
            return Err(*log.borrow());
        };
        // No task writes the log any more.
        if !is_written {
            return Ok(());
        }
    }
}

/// Returns when the CRI file has been opened, a run has ended without one, or no task writes the log any more. Fails
/// after [`MAX_STALL`].
pub(super) async fn opening(mut log: watch::Receiver<Progress>) -> Result<(), Elapsed> {
    timeout(MAX_STALL, log.wait_for(|now| now.opened || now.complete)).await.map(drop)
}

/// How long [`opening`] waits at most, and [`completion`] while the log makes no progress.
const MAX_STALL: Duration = Duration::from_secs(2);
/// How long [`completion`] waits at most in total.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;

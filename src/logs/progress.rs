//! The progress of a log, for waiting callers.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, error::Elapsed, timeout, timeout_at},
};

use crate::model::time::Nanos;

/// The state of a log for callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// The CRI file exists.
    pub(super) opened: bool,
    /// Bytes of the engine's log that this process has converted.
    pub(super) bytes: u64,
    /// The start of the run that has ended, if one has.
    pub(super) ended: Option<Nanos>,
    /// The CRI file has the container's whole output, or will never have more.
    pub(super) complete: bool,
    /// The run's end was shown before its log was complete.
    pub(super) given_up: bool,
    /// Bytes of the engine's log that are not converted yet, if that is known.
    pub(super) remaining: Option<u64>,
}

/// A caller waited too long. This is the last known state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedOut(pub(super) Progress);

/// Returns when the whole log of this run is written. Returns at once if an earlier caller waited too long
/// for it, or if the container was started again.
pub(super) async fn completion(
    mut log: watch::Receiver<Progress>,
    run: Nanos,
) -> Result<(), TimedOut> {
    let give_up = Instant::now() + LONGEST_WAIT;
    loop {
        let now = *log.borrow_and_update();
        if now.complete || now.given_up || now.ended != Some(run) {
            return Ok(());
        }
        let until = give_up.min(Instant::now() + STANDSTILL);
        let change = log.wait_for(|later| {
            later.complete || later.bytes != now.bytes || later.ended != now.ended
        });
        let Ok(is_written) = timeout_at(until, change).await.map(|change| change.is_ok()) else {
            return Err(TimedOut(*log.borrow()));
        };
        // The log is no longer written.
        if !is_written {
            return Ok(());
        }
    }
}

/// Returns when the CRI file exists. Fails if the file does not exist within the time limit.
pub(super) async fn opening(mut log: watch::Receiver<Progress>) -> Result<(), Elapsed> {
    timeout(STANDSTILL, log.wait_for(|now| now.opened || now.complete)).await.map(drop)
}

/// How long callers wait for more of a log, and for the whole log.
const STANDSTILL: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;

//! The progress of a log, for waiting callers.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// The state of a log for callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// The CRI file exists.
    pub(super) opened: bool,
    /// Bytes of the engine's log that this process has converted.
    pub(super) bytes: u64,
    /// The CRI file has the container's whole output, or will never have more.
    pub(super) complete: bool,
    /// Bytes of the engine's log that are not converted yet, if that is known.
    pub(super) remaining: Option<u64>,
}

/// A caller waited too long. This is the last known state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedOut(pub(super) Progress);

/// How long callers wait for a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitLimits {
    pub(super) standstill: Duration,
    pub(super) in_all: Duration,
}

impl Default for WaitLimits {
    fn default() -> Self {
        Self { standstill: Duration::from_secs(2), in_all: Duration::from_secs(10) }
    }
}

/// Returns when the whole log is written.
///
/// # Errors
/// The log is not complete within the time limit.
pub(super) async fn completion(
    mut log: watch::Receiver<Progress>,
    time_limit: WaitLimits,
) -> Result<(), TimedOut> {
    let give_up = Instant::now() + time_limit.in_all;
    loop {
        let now = *log.borrow_and_update();
        if now.complete {
            return Ok(());
        }
        let until = give_up.min(Instant::now() + time_limit.standstill);
        let change = log.wait_for(|later| later.complete || later.bytes != now.bytes);
        let Ok(is_written) = timeout_at(until, change).await.map(|change| change.is_ok()) else {
            return Err(TimedOut(*log.borrow()));
        };
        // The log is no longer written.
        if !is_written {
            return Ok(());
        }
    }
}

/// Returns when the CRI file exists.
///
/// # Errors
/// The file does not exist within the time limit.
pub(super) async fn opening(
    mut log: watch::Receiver<Progress>,
    time_limit: WaitLimits,
) -> Result<(), TimedOut> {
    let there = log.wait_for(|now| now.opened || now.complete);
    let late = tokio::time::timeout(time_limit.standstill, there).await.is_err();
    if late { Err(TimedOut(*log.borrow())) } else { Ok(()) }
}

#[cfg(test)]
mod tests;

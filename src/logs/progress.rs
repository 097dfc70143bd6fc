//! The progress of a log, for callers that wait for it.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// What there is to know of a log from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// The CRI file is there.
    pub(super) opened: bool,
    /// Bytes of the engine's that were converted since we began.
    pub(super) moved: u64,
    /// Everything the container wrote is in the CRI file, or never will be.
    pub(super) complete: bool,
    /// Bytes of the engine's that are still to be converted, where that is known.
    pub(super) left: Option<u64>,
}

/// A caller that waited too long; the last known state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedOut(pub(super) Progress);

/// How long others wait for a log.
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

/// Returns when everything is written.
///
/// # Errors
/// It takes too long.
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
        let moves = log.wait_for(|later| later.complete || later.moved != now.moved);
        let Ok(moved) = timeout_at(until, moves).await.map(|moved| moved.is_ok()) else {
            return Err(TimedOut(*log.borrow()));
        };
        // Otherwise no log is written any more.
        if !moved {
            return Ok(());
        }
    }
}

/// Returns when the CRI file is there.
///
/// # Errors
/// It takes too long.
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

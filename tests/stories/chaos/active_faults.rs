//! Records when faults are active, because a CRI call may fail if a fault was active during the call.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::support::patience::patient;

/// The active faults, shared by the task that causes faults and the clients that make CRI calls.
#[derive(Debug, Default)]
pub(super) struct ActiveFaults(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How often a fault has begun or ended.
    changes: u64,
    disturbed: bool,
    /// The time at which the last fault ended, or `None` before the end of the first fault.
    calm_since: Option<Instant>,
}

/// A moment at which no fault is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calm(u64);

impl ActiveFaults {
    /// Records that a fault begins.
    pub(super) fn disturb(&self) {
        let mut state = self.state();
        (state.changes, state.disturbed) = (state.changes + 1, true);
    }

    /// Records that the active fault has ended.
    pub(super) fn calm(&self) {
        let mut state = self.state();
        state.changes += 1;
        (state.disturbed, state.calm_since) = (false, Some(Instant::now()));
    }

    /// The current moment, or `None` while a fault is active and for a while afterwards.
    pub(super) fn moment(&self) -> Option<Calm> {
        let state = self.state();
        let recovered = state.calm_since.is_none_or(|at| at.elapsed() > patient(GRACE));
        (!state.disturbed && recovered).then_some(Calm(state.changes))
    }

    /// Whether no fault has begun or ended since `since`. Returns false if `since` is `None`.
    pub(super) fn lasted(&self, since: Option<Calm>) -> bool {
        since.is_some_and(|Calm(changes)| changes == self.state().changes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long dockbridge and the engine may take to recover from a fault.
pub(super) const GRACE: Duration = Duration::from_secs(3);

//! Whether a fault was active during a call. The call may then fail.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::support::patience::patient;

/// Shared by the disturber and the callers.
#[derive(Debug, Default)]
pub(super) struct ActiveFaults(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How often a fault began or ended.
    changes: u64,
    disturbed: bool,
    /// When the last fault ended. None before the first one.
    calm_since: Option<Instant>,
}

/// A moment without a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calm(u64);

impl ActiveFaults {
    /// A fault begins.
    pub(super) fn disturb(&self) {
        let mut state = self.state();
        (state.changes, state.disturbed) = (state.changes + 1, true);
    }

    /// The fault has ended.
    pub(super) fn calm(&self) {
        let mut state = self.state();
        state.changes += 1;
        (state.disturbed, state.calm_since) = (false, Some(Instant::now()));
    }

    /// None while a fault is active, and for a while after it.
    pub(super) fn moment(&self) -> Option<Calm> {
        let state = self.state();
        let recovered = state.calm_since.is_none_or(|at| at.elapsed() > patient(GRACE));
        (!state.disturbed && recovered).then_some(Calm(state.changes))
    }

    /// Whether no fault began or ended since that moment.
    pub(super) fn lasted(&self, since: Option<Calm>) -> bool {
        since.is_some_and(|Calm(changes)| changes == self.state().changes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long everything may take to recover from a fault.
pub(super) const GRACE: Duration = Duration::from_secs(3);

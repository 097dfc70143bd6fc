//! Whether a fault was active during a call: then it may fail.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::support::patience::patient;

/// Shared by those who disturb and those who call.
#[derive(Debug, Default)]
pub(super) struct ActiveFaults(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Counts beginnings and ends.
    changes: u64,
    disturbed: bool,
    /// When it was over; none before anything happened.
    calm_since: Option<Instant>,
}

/// A calm moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calm(u64);

impl ActiveFaults {
    /// Something goes wrong from now on.
    pub(super) fn disturb(&self) {
        let mut state = self.state();
        (state.changes, state.disturbed) = (state.changes + 1, true);
    }

    /// It is over.
    pub(super) fn calm(&self) {
        let mut state = self.state();
        state.changes += 1;
        (state.disturbed, state.calm_since) = (false, Some(Instant::now()));
    }

    /// None while something is wrong, and for a while after it.
    pub(super) fn moment(&self) -> Option<Calm> {
        let state = self.state();
        let recovered = state.calm_since.is_none_or(|at| at.elapsed() > patient(GRACE));
        (!state.disturbed && recovered).then_some(Calm(state.changes))
    }

    /// Whether nothing happened since that moment.
    pub(super) fn lasted(&self, since: Option<Calm>) -> bool {
        since.is_some_and(|Calm(changes)| changes == self.state().changes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// To be itself again.
pub(super) const GRACE: Duration = Duration::from_secs(3);

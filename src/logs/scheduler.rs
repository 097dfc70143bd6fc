//! Which logs are polled now, later, or when something happens.
//!
//! ```text
//!             wake                  start                 finish(Sleep)
//!   Asleep ─────────▶ Queued ───────────────▶ Running ─────────────────────▶ Asleep
//!                       ▲                        │ wake: again                 │
//!                       ├──── finish(Again) ◀────┤                             │
//!                       └──── due ◀── Resting ◀──┘ finish(Rest)                │
//!                       └──────────────── wake ◀───────────────────────────────┘
//! ```
//!
//! Polls are started in the order in which they were queued, and a log that wants another one is queued
//! behind the others: a container that writes without end delays them by one poll each. No clock, no I/O.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
};

use tokio::time::Instant;

use crate::model::id::ContainerId;

/// Every container that has a log to be written.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    polls: HashMap<ContainerId, PollState>,
    queue: VecDeque<ContainerId>,
    rests: BinaryHeap<Reverse<(Instant, ContainerId)>>,
    running: usize,
}

/// What follows a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextPoll {
    /// There is more: another poll when all waiting logs have had theirs.
    Again,
    /// Another poll at this time.
    Rest(Instant),
    /// None until it is woken.
    Sleep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PollState {
    Asleep,
    Queued,
    Running { again: bool, late: bool },
    Resting(Instant),
}

impl Scheduler {
    /// Something happened to this container's log. One that is not known becomes so.
    pub(super) fn wake(&mut self, id: &ContainerId) {
        let poll = self.polls.entry(id.clone()).or_insert(PollState::Asleep);
        match poll {
            PollState::Queued => {}
            PollState::Running { again, .. } => *again = true,
            PollState::Asleep | PollState::Resting(_) => {
                *poll = PollState::Queued;
                self.queue.push_back(id.clone());
            }
        }
    }

    /// As [`Self::wake`], of all.
    pub(super) fn wake_all(&mut self) {
        let all: Vec<ContainerId> = self.polls.keys().cloned().collect();
        for id in &all {
            self.wake(id);
        }
    }

    /// The next poll to begin now, unless as many are under way as there may be.
    pub(super) fn start(&mut self) -> Option<ContainerId> {
        while self.running < AT_ONCE {
            let id = self.queue.pop_front()?;
            // A removed log may still be in the queue.
            if let Some(poll @ PollState::Queued) = self.polls.get_mut(&id) {
                *poll = PollState::Running { again: false, late: false };
                self.running += 1;
                return Some(id);
            }
        }
        None
    }

    /// A poll is over. A log that was woken during it gets another one, whatever `then` is.
    pub(super) fn finish(&mut self, id: &ContainerId, then: NextPoll) {
        let Some(poll) = self.polls.get_mut(id) else { return };
        let (woken, late) = match poll {
            PollState::Running { again, late } => (*again, *late),
            _ => (false, false),
        };
        if !late {
            self.running = self.running.saturating_sub(1);
        }
        match then {
            _ if woken => *poll = PollState::Queued,
            NextPoll::Again => *poll = PollState::Queued,
            NextPoll::Sleep => *poll = PollState::Asleep,
            NextPoll::Rest(until) => {
                *poll = PollState::Resting(until);
                self.rests.push(Reverse((until, id.clone())));
            }
        }
        if *poll == PollState::Queued {
            self.queue.push_back(id.clone());
        }
    }

    /// A poll does not come back: its place is another's.
    pub(super) fn make_room(&mut self, id: &ContainerId) {
        if let Some(PollState::Running { late: late @ false, .. }) = self.polls.get_mut(id) {
            *late = true;
            self.running = self.running.saturating_sub(1);
        }
    }

    /// When the next rest is over.
    pub(super) fn next_due(&mut self) -> Option<Instant> {
        while let Some(Reverse((until, id))) = self.rests.peek() {
            // A log that was woken or removed meanwhile is no longer idle.
            if self.polls.get(id) == Some(&PollState::Resting(*until)) {
                return Some(*until);
            }
            self.rests.pop();
        }
        None
    }

    /// Ends the rests that are over by `now`.
    pub(super) fn due(&mut self, now: Instant) {
        while self.next_due().is_some_and(|until| until <= now) {
            if let Some(Reverse((_, id))) = self.rests.pop() {
                self.wake(&id);
            }
        }
    }

    /// Forgets its log. Not to be called during its poll.
    pub(super) fn remove(&mut self, id: &ContainerId) {
        self.polls.remove(id);
    }
}

/// Polls in progress at the same time, without those that a file system keeps. Each is a thread that
/// reads, converts and writes; more of them would take the machine away from those who write.
const AT_ONCE: usize = 2;

#[cfg(test)]
mod tests;

//! Polls in progress, and which of them hang in a file system.

use std::{collections::HashMap, path::Path, time::Duration};

use tokio::{task, time::Instant};

use super::logged_container::LoggedContainer;

/// Polls in progress.
#[derive(Debug)]
pub(super) struct RunningPolls {
    polls: HashMap<task::Id, RunningPoll>,
    limit: Duration,
}

#[derive(Debug)]
struct RunningPoll {
    container: LoggedContainer,
    begun: Instant,
    late: bool,
}

impl RunningPolls {
    /// No poll yet; one that takes longer than `limit` is late.
    pub(super) fn new(limit: Duration) -> Self {
        Self { polls: HashMap::new(), limit }
    }

    /// A poll begins.
    pub(super) fn begin(&mut self, poll: task::Id, container: LoggedContainer) {
        self.polls.insert(poll, RunningPoll { container, begun: Instant::now(), late: false });
    }

    /// A poll is over; whose, and whether it was late.
    pub(super) fn end(&mut self, poll: task::Id) -> Option<(LoggedContainer, bool)> {
        self.polls.remove(&poll).map(|poll| (poll.container, poll.late))
    }

    /// All that are under way.
    pub(super) fn containers(&self) -> impl Iterator<Item = &LoggedContainer> {
        self.polls.values().map(|poll| &poll.container)
    }

    /// When the next one will count as late, if any may.
    pub(super) fn next_late(&self) -> Option<Instant> {
        self.lateness().min().filter(|_| self.free() > 0)
    }

    /// When none of them can be expected to end any more.
    pub(super) fn last_late(&self) -> Option<Instant> {
        self.lateness().max()
    }

    fn lateness(&self) -> impl Iterator<Item = Instant> {
        self.polls.values().filter(|poll| !poll.late).map(|poll| poll.begun + self.limit)
    }

    /// How many more may be late.
    fn free(&self) -> usize {
        MOST_LATE.saturating_sub(self.polls.values().filter(|poll| poll.late).count())
    }

    /// Those that are late since now: others may have their places. Beyond a bound nobody is, as
    /// each keeps a thread.
    pub(super) fn become_late(&mut self, now: Instant) -> Vec<LoggedContainer> {
        let (bound, limit) = (self.free(), self.limit);
        let late = |poll: &&mut RunningPoll| !poll.late && poll.begun + limit <= now;
        let late = self.polls.values_mut().filter(late).take(bound);
        late.map(|poll| {
            poll.late = true;
            poll.container.clone()
        })
        .collect()
    }

    /// Whether a poll in this log directory is late: another one would hang as well.
    pub(super) fn holds(&self, root: &Path) -> bool {
        self.polls.values().any(|poll| poll.late && poll.container.target.root() == root)
    }
}

/// A poll reads and writes at most a megabyte: one that takes longer waits for a file system.
pub(super) const POLL_LIMIT: Duration = Duration::from_secs(2);
/// Threads that hanging directories may keep, one each: more than a node has pods, as with all of
/// them kept no log goes on. The runtime has these and others.
pub(super) const MOST_LATE: usize = 512;

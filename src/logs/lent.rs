//! Logs that threads have for a turn, and which of them a hanging file system keeps.

use std::{collections::HashMap, path::Path, time::Duration};

use tokio::{task, time::Instant};

use super::subject::Subject;

/// Turns under way.
#[derive(Debug, Default)]
pub(super) struct Lent(HashMap<task::Id, Loan>);

#[derive(Debug)]
struct Loan {
    subject: Subject,
    begun: Instant,
    late: bool,
}

impl Lent {
    /// A turn begins.
    pub(super) fn begin(&mut self, turn: task::Id, subject: Subject) {
        self.0.insert(turn, Loan { subject, begun: Instant::now(), late: false });
    }

    /// A turn is over; whose, and whether it was late.
    pub(super) fn end(&mut self, turn: task::Id) -> Option<(Subject, bool)> {
        self.0.remove(&turn).map(|loan| (loan.subject, loan.late))
    }

    /// All that are under way.
    pub(super) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.0.values().map(|loan| &loan.subject)
    }

    /// When the next one will count as late, if any may.
    pub(super) fn next_late(&self) -> Option<Instant> {
        self.lateness().min().filter(|_| self.room() > 0)
    }

    /// When nobody can be expected any more.
    pub(super) fn last_late(&self) -> Option<Instant> {
        self.lateness().max()
    }

    fn lateness(&self) -> impl Iterator<Item = Instant> {
        self.0.values().filter(|loan| !loan.late).map(|loan| loan.begun + PATIENCE)
    }

    /// How many more may be late.
    fn room(&self) -> usize {
        MOST_LATE.saturating_sub(self.0.values().filter(|loan| loan.late).count())
    }

    /// Those that are late since now: others may have their places. Beyond a bound nobody is, as
    /// each keeps a thread.
    pub(super) fn become_late(&mut self, now: Instant) -> Vec<Subject> {
        let bound = self.room();
        let late = |loan: &&mut Loan| !loan.late && loan.begun + PATIENCE <= now;
        let late = self.0.values_mut().filter(late).take(bound);
        late.map(|loan| {
            loan.late = true;
            loan.subject.clone()
        })
        .collect()
    }

    /// Whether a turn in this log directory is late: another one would hang as well.
    pub(super) fn holds(&self, root: &Path) -> bool {
        self.0.values().any(|loan| loan.late && loan.subject.target.root() == root)
    }
}

/// A turn is a megabyte at most: whoever takes longer waits for a file system. Tests have many that
/// hang.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 2_000 });
/// Threads that hanging directories may keep, one each: more than a node has pods, as with all of
/// them kept no log goes on. The runtime has these and others.
pub(super) const MOST_LATE: usize = 512;

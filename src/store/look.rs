//! Looks: at most one inspect per object at a time, so an answer is never older than the last.
//!
//! ```text
//!            want, ask                start                 finish
//!   (none) ───────────▶ Queued ───────────────▶ Running ───────────────▶ (none)
//!                          ▲                       │ want, ask: again        │
//!                          ├───── again ◀──────────┘                         │
//!                          └───── Resting ◀──────────── failed ◀─────────────┘
//! ```
//!
//! Whoever asks while a look is Running is served by the next one: only a look that began after
//! the question can know what the asker just did. No clock, no I/O: the writer starts the looks.

use std::collections::{HashMap, VecDeque};

use super::settings::StoreSettings;

/// What to look at. Two names of one image are two targets; their answers meet in the record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Target {
    /// A container, by id.
    Container(String),
    /// An image, by id or reference.
    Image(String),
}

impl Target {
    /// The object as it was named.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Container(name) | Self::Image(name) => name,
        }
    }
}

/// When a look began, in looks. Of two answers about one object the later ticket is the truer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Every look that is wanted, under way, or to be repeated; `W` is who waits for it.
#[derive(Debug)]
pub(super) struct Looks<W> {
    entries: HashMap<Target, Entry<W>>,
    urgent: VecDeque<Target>,
    routine: VecDeque<Target>,
    running: HashMap<Ticket, Lane>,
    lanes: Lanes,
    clock: u64,
}

/// What the end of a look means.
#[derive(Debug)]
pub(super) struct Finished<W> {
    /// Those whom this look answers.
    pub(super) waiters: Vec<W>,
    /// It failed for this many times in a row, and nothing but a timer will repeat it.
    pub(super) rest: Option<u32>,
}

#[derive(Debug)]
struct Entry<W> {
    phase: Phase,
    /// Served by the look that is queued or running.
    waiting: Vec<W>,
    /// Served by the one after.
    next: Vec<W>,
    again: bool,
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Queued,
    Running(Ticket),
    Resting,
}

/// What a running look counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Quick,
    Slow,
    /// A verb waits; there are never more of these than verbs.
    Urgent,
}

#[derive(Debug)]
struct Lanes {
    quick: usize,
    quick_limit: usize,
    slow: usize,
    slow_limit: usize,
}

impl<W> Looks<W> {
    pub(super) fn new(settings: &StoreSettings) -> Self {
        let lanes = Lanes {
            quick: 0,
            quick_limit: settings.looks.max(1),
            slow: 0,
            slow_limit: settings.slow_looks,
        };
        Self {
            entries: HashMap::new(),
            urgent: VecDeque::new(),
            routine: VecDeque::new(),
            running: HashMap::new(),
            lanes,
            clock: 0,
        }
    }

    /// Somebody says the object changed.
    pub(super) fn want(&mut self, target: &Target) {
        match self.entries.get_mut(target) {
            Some(Entry { phase: Phase::Queued, .. }) => return,
            Some(entry @ Entry { phase: Phase::Running(_), .. }) => {
                entry.again = true;
                return;
            }
            Some(entry) => entry.phase = Phase::Queued,
            None => {
                self.entries.insert(target.clone(), Entry::new());
            }
        }
        self.routine.push_back(target.clone());
    }

    /// Somebody waits for a look that begins from now on.
    pub(super) fn ask(&mut self, target: Target, waiter: W) {
        let entry = self.entries.entry(target.clone()).or_insert_with(Entry::new);
        if let Phase::Running(_) = entry.phase {
            entry.again = true;
            entry.next.push(waiter);
            return;
        }
        entry.phase = Phase::Queued;
        entry.waiting.push(waiter);
        self.urgent.push_back(target);
    }

    /// The next look to begin now, if the bounds allow one.
    pub(super) fn start(&mut self) -> Option<(Target, Ticket)> {
        while let Some(target) = self.urgent.pop_front() {
            if let Some(begun) = self.begin(target, Lane::Urgent) {
                return Some(begun);
            }
        }
        while self.lanes.quick < self.lanes.quick_limit {
            let target = self.routine.pop_front()?;
            if let Some(begun) = self.begin(target, Lane::Quick) {
                self.lanes.quick += 1;
                return Some(begun);
            }
        }
        None
    }

    /// This look takes long: it stops holding back others, as far as the bound on slow ones goes.
    pub(super) fn slowed(&mut self, ticket: Ticket) {
        let has_room = self.lanes.slow < self.lanes.slow_limit;
        if let Some(lane @ Lane::Quick) = self.running.get_mut(&ticket).filter(|_| has_room) {
            *lane = Lane::Slow;
            self.lanes.quick -= 1;
            self.lanes.slow += 1;
        }
    }

    /// A look came to its end.
    pub(super) fn finish(&mut self, target: &Target, ticket: Ticket, success: bool) -> Finished<W> {
        match self.running.remove(&ticket) {
            Some(Lane::Quick) => self.lanes.quick -= 1,
            Some(Lane::Slow) => self.lanes.slow -= 1,
            Some(Lane::Urgent) | None => {}
        }
        let Some(entry) =
            self.entries.get_mut(target).filter(|e| e.phase == Phase::Running(ticket))
        else {
            return Finished { waiters: Vec::new(), rest: None };
        };
        let waiters = std::mem::replace(&mut entry.waiting, std::mem::take(&mut entry.next));
        entry.failures = if success { 0 } else { entry.failures.saturating_add(1) };
        let failures = entry.failures;
        if std::mem::take(&mut entry.again) {
            entry.phase = Phase::Queued;
            let queue = if entry.waiting.is_empty() { &mut self.routine } else { &mut self.urgent };
            queue.push_back(target.clone());
            return Finished { waiters, rest: None };
        }
        if success {
            self.entries.remove(target);
            return Finished { waiters, rest: None };
        }
        entry.phase = Phase::Resting;
        Finished { waiters, rest: Some(failures) }
    }

    /// The rest after a failure is over.
    pub(super) fn rested(&mut self, target: &Target) {
        if self.entries.get(target).is_some_and(|entry| entry.phase == Phase::Resting) {
            self.want(target);
        }
    }

    /// The object is gone for good: those who wait learn it at once, and a look under way is
    /// nobody's.
    pub(super) fn forget(&mut self, target: &Target) -> Vec<W> {
        let Some(mut entry) = self.entries.remove(target) else { return Vec::new() };
        entry.waiting.append(&mut entry.next);
        entry.waiting
    }

    /// The engine is away: what nobody waits for is dropped, for the next list asks for it all.
    pub(super) fn drop_unasked(&mut self) {
        self.entries.retain(|_, entry| match entry.phase {
            Phase::Queued | Phase::Resting => !entry.waiting.is_empty(),
            Phase::Running(_) => true,
        });
        self.routine.clear();
    }

    /// Everything wanted, under way, or to be repeated.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        self.entries.keys()
    }

    /// An instant later than every look begun so far, and earlier than all others.
    pub(super) fn now(&self) -> Ticket {
        Ticket(self.clock)
    }

    /// An instant of its own, later than every look begun so far and earlier than all others.
    pub(super) const fn stamp(&mut self) -> Ticket {
        self.clock += 1;
        Ticket(self.clock)
    }

    /// Looks that began before this instant are all over.
    pub(super) fn horizon(&self) -> Ticket {
        self.running.keys().min().copied().unwrap_or(Ticket(self.clock.saturating_add(1)))
    }

    fn begin(&mut self, target: Target, lane: Lane) -> Option<(Target, Ticket)> {
        // A target can stand in both queues; only the first turn finds it Queued.
        let entry = self.entries.get_mut(&target).filter(|entry| entry.phase == Phase::Queued)?;
        self.clock += 1;
        let ticket = Ticket(self.clock);
        entry.phase = Phase::Running(ticket);
        self.running.insert(ticket, lane);
        Some((target, ticket))
    }
}

impl<W> Entry<W> {
    const fn new() -> Self {
        Self {
            phase: Phase::Queued,
            waiting: Vec::new(),
            next: Vec::new(),
            again: false,
            failures: 0,
        }
    }
}

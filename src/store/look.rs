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
    changed: Queue,
    listed: Queue,
    running: HashMap<Ticket, Lane>,
    clock: u64,
}

/// Why nobody waits for a look and it is wanted nevertheless. Each has bounds of its own: where
/// what was listed is answered slowly, what changes is still seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Somebody says that it changed.
    Changed,
    /// It is there, or was: a list is to be followed.
    Listed,
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
    /// It stands among those that changed.
    changed: bool,
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
    Quick(Reason),
    Slow(Reason),
    /// A verb waits; there are never more of these than verbs.
    Urgent,
}

#[derive(Debug)]
struct Queue {
    targets: VecDeque<Target>,
    quick: usize,
    quick_limit: usize,
    slow: usize,
    slow_limit: usize,
}

impl<W> Looks<W> {
    pub(super) fn new(settings: &StoreSettings) -> Self {
        let queue = || Queue {
            targets: VecDeque::new(),
            quick: 0,
            quick_limit: settings.looks.max(1),
            slow: 0,
            slow_limit: settings.slow_looks,
        };
        Self {
            entries: HashMap::new(),
            urgent: VecDeque::new(),
            changed: queue(),
            listed: queue(),
            running: HashMap::new(),
            clock: 0,
        }
    }

    /// A look is wanted that begins from now on, and nobody waits for it.
    pub(super) fn want(&mut self, target: &Target, reason: Reason) {
        let changed = reason == Reason::Changed;
        match self.entries.get_mut(target) {
            Some(entry @ Entry { phase: Phase::Queued, .. }) => {
                if !changed || std::mem::replace(&mut entry.changed, true) {
                    return;
                }
            }
            Some(entry @ Entry { phase: Phase::Running(_), .. }) => {
                entry.again = true;
                return;
            }
            Some(entry) => (entry.phase, entry.changed) = (Phase::Queued, changed),
            None => {
                let entry = Entry { changed, ..Entry::new() };
                self.entries.insert(target.clone(), entry);
            }
        }
        self.queue(reason).targets.push_back(target.clone());
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
        self.start_one(Reason::Changed).or_else(|| self.start_one(Reason::Listed))
    }

    /// This look takes long: it stops holding back others, as far as the bound on slow ones goes.
    pub(super) fn slowed(&mut self, ticket: Ticket) {
        let Some(Lane::Quick(reason)) = self.running.get(&ticket).copied() else { return };
        let queue = self.queue(reason);
        if queue.slow < queue.slow_limit {
            queue.quick -= 1;
            queue.slow += 1;
            self.running.insert(ticket, Lane::Slow(reason));
        }
    }

    /// A look came to its end.
    pub(super) fn finish(&mut self, target: &Target, ticket: Ticket, success: bool) -> Finished<W> {
        match self.running.remove(&ticket) {
            Some(Lane::Quick(reason)) => self.queue(reason).quick -= 1,
            Some(Lane::Slow(reason)) => self.queue(reason).slow -= 1,
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
            (entry.phase, entry.changed) = (Phase::Queued, entry.waiting.is_empty());
            let changed = &mut self.changed.targets;
            let queue = if entry.waiting.is_empty() { changed } else { &mut self.urgent };
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
            self.want(target, Reason::Listed);
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
        self.changed.targets.clear();
        self.listed.targets.clear();
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

    const fn queue(&mut self, reason: Reason) -> &mut Queue {
        match reason {
            Reason::Changed => &mut self.changed,
            Reason::Listed => &mut self.listed,
        }
    }

    fn start_one(&mut self, reason: Reason) -> Option<(Target, Ticket)> {
        while self.queue(reason).quick < self.queue(reason).quick_limit {
            let target = self.queue(reason).targets.pop_front()?;
            if let Some(begun) = self.begin(target, Lane::Quick(reason)) {
                self.queue(reason).quick += 1;
                return Some(begun);
            }
        }
        None
    }

    fn begin(&mut self, target: Target, lane: Lane) -> Option<(Target, Ticket)> {
        // A target can stand in several queues; only the first turn finds it Queued.
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
            changed: false,
            waiting: Vec::new(),
            next: Vec::new(),
            again: false,
            failures: 0,
        }
    }
}

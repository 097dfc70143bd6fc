//! The queue of inspects. At most one inspect per object runs at a time, so no answer is older than the
//! previous one.
//!
//! ```text
//!          enqueue, wait              start                 finish
//!   (none) ───────────▶ Queued ───────────────▶ Running ───────────────▶ (none)
//!                          ▲                       │ enqueue, wait: again    │
//!                          ├───── again ◀──────────┘                         │
//!                          └───── Backoff ◀──────────── failed ◀─────────────┘
//! ```
//!
//! If a caller asks while an inspect is Running, the next inspect serves it: only an inspect that began
//! after the caller's change is sure to show it. A call's event may arrive before or after the engine's
//! answer. If one inspect certainly shows both, only one is made ([`InspectQueue::saw`],
//! [`InspectQueue::wait`]). The queue has no clock and does no I/O. The writer runs the inspects.

use std::collections::{HashMap, VecDeque};

use super::{engine_call::EngineCall, settings::StoreSettings};
use crate::model::{engine::Transition, time::Nanos};

/// What to inspect. Two names of one image are two targets that update the same record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Target {
    Container(String),
    /// An image, by id or reference.
    Image(String),
}

impl Target {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Container(name) | Self::Image(name) => name,
        }
    }
}

/// When an inspect began, counted in inspects. If there are two answers about one object, the later one
/// counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Generation(u64);

/// All inspects that are queued, running, or waiting to be repeated. `W` is a waiting caller.
#[derive(Debug)]
pub(super) struct InspectQueue<W> {
    entries: HashMap<Target, Entry<W>>,
    urgent: VecDeque<Target>,
    changed: Queue,
    listed: Queue,
    running: HashMap<Generation, Lane>,
    clock: u64,
}

/// The reason of an inspect without a waiting caller. Each reason has its own limit, so slow inspects of
/// listed objects do not delay inspects of changed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// An event reported a change.
    Changed,
    /// A list contains the object, or lacks it.
    Listed,
}

/// The result of an ended inspect.
#[derive(Debug)]
pub(super) struct Finished<W> {
    /// The callers that this inspect answers.
    pub(super) waiters: Vec<W>,
    /// How many times in a row it failed. Only a timer will repeat it.
    pub(super) failures: Option<u32>,
}

#[derive(Debug)]
struct Entry<W> {
    phase: Phase,
    /// Whether this object is in the queue of changed objects.
    changed: bool,
    /// Callers that the queued or running inspect answers.
    waiting: Vec<W>,
    /// Callers that the inspect after it answers.
    next: Vec<W>,
    again: bool,
    /// What the queued or running inspect certainly shows, because it begins after it.
    after: Option<Seen>,
    /// The same for the inspect after it.
    next_after: Option<Seen>,
    failures: u32,
}

/// How dockbridge learned of a create or start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Answer(Transition),
    Event(Transition, Nanos),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Queued,
    Running(Generation),
    Backoff,
}

/// Which limit a running inspect counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Quick(Reason),
    Slow(Reason),
    /// A caller waits for it. There are never more of these than callers.
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

impl<W> InspectQueue<W> {
    pub(super) fn new(settings: &StoreSettings) -> Self {
        let queue = || Queue {
            targets: VecDeque::new(),
            quick: 0,
            quick_limit: settings.inspects.max(1),
            slow: 0,
            slow_limit: settings.slow_inspects,
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

    /// Queues an inspect that begins after this call, without a waiting caller.
    pub(super) fn enqueue(&mut self, target: &Target, reason: Reason) {
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

    /// Queues an inspect because of the event of a create or start. Returns false if a running inspect
    /// began after the change.
    pub(super) fn saw(&mut self, target: &Target, transition: Transition, at: Nanos) -> bool {
        let running = self.entries.get(target).filter(|it| matches!(it.phase, Phase::Running(_)));
        if running.is_some_and(|entry| entry.after == Some(Seen::Answer(transition))) {
            return false;
        }
        self.enqueue(target, Reason::Changed);
        if let Some(entry) = self.entries.get_mut(target) {
            entry.begins_after(Seen::Event(transition, at));
        }
        true
    }

    /// Queues an inspect for a waiting caller. `answered` is a call of this caller that the engine has
    /// answered. An inspect that began after the event of that call is enough.
    pub(super) fn wait(&mut self, target: Target, answered: Option<EngineCall>, waiter: W) {
        let entry = self.entries.entry(target.clone()).or_insert_with(Entry::new);
        let running = matches!(entry.phase, Phase::Running(_));
        if let Some(call) = answered {
            if running && !entry.again && entry.after.is_some_and(|seen| seen.is_of(call)) {
                entry.waiting.push(waiter);
                return;
            }
            entry.begins_after(Seen::Answer(call.transition));
        }
        if running {
            entry.again = true;
            entry.next.push(waiter);
            return;
        }
        entry.phase = Phase::Queued;
        entry.waiting.push(waiter);
        self.urgent.push_back(target);
    }

    /// The next inspect to run now, if the limits allow one.
    pub(super) fn start(&mut self) -> Option<(Target, Generation)> {
        while let Some(target) = self.urgent.pop_front() {
            if let Some(begun) = self.begin(target, Lane::Urgent) {
                return Some(begun);
            }
        }
        self.start_one(Reason::Changed).or_else(|| self.start_one(Reason::Listed))
    }

    /// This inspect is slow. It no longer delays others, as long as the limit for slow ones allows it.
    pub(super) fn set_slow(&mut self, generation: Generation) {
        let Some(Lane::Quick(reason)) = self.running.get(&generation).copied() else { return };
        let queue = self.queue(reason);
        if queue.slow < queue.slow_limit {
            queue.quick -= 1;
            queue.slow += 1;
            self.running.insert(generation, Lane::Slow(reason));
        }
    }

    pub(super) fn finish(
        &mut self,
        target: &Target,
        generation: Generation,
        success: bool,
    ) -> Finished<W> {
        match self.running.remove(&generation) {
            Some(Lane::Quick(reason)) => self.queue(reason).quick -= 1,
            Some(Lane::Slow(reason)) => self.queue(reason).slow -= 1,
            Some(Lane::Urgent) | None => {}
        }
        let Some(entry) =
            self.entries.get_mut(target).filter(|e| e.phase == Phase::Running(generation))
        else {
            return Finished { waiters: Vec::new(), failures: None };
        };
        let waiters = std::mem::replace(&mut entry.waiting, std::mem::take(&mut entry.next));
        entry.failures = if success { 0 } else { entry.failures.saturating_add(1) };
        entry.after = entry.next_after.take();
        let failures = entry.failures;
        if std::mem::take(&mut entry.again) {
            (entry.phase, entry.changed) = (Phase::Queued, entry.waiting.is_empty());
            let changed = &mut self.changed.targets;
            let queue = if entry.waiting.is_empty() { changed } else { &mut self.urgent };
            queue.push_back(target.clone());
            return Finished { waiters, failures: None };
        }
        if success {
            self.entries.remove(target);
            return Finished { waiters, failures: None };
        }
        entry.phase = Phase::Backoff;
        Finished { waiters, failures: Some(failures) }
    }

    /// The pause after a failure has ended.
    pub(super) fn retry(&mut self, target: &Target, reason: Reason) {
        if self.entries.get(target).is_some_and(|entry| entry.phase == Phase::Backoff) {
            self.enqueue(target, reason);
        }
    }

    /// The object is gone. Returns the waiting callers, and ignores the answer of a running inspect.
    pub(super) fn forget(&mut self, target: &Target) -> Vec<W> {
        let Some(mut entry) = self.entries.remove(target) else { return Vec::new() };
        entry.waiting.append(&mut entry.next);
        entry.waiting
    }

    /// The engine is down. Drops inspects without a waiting caller, because the next list queues everything
    /// again.
    pub(super) fn drop_unrequested(&mut self) {
        self.entries.retain(|_, entry| match entry.phase {
            Phase::Queued | Phase::Backoff => !entry.waiting.is_empty(),
            Phase::Running(_) => true,
        });
        self.changed.targets.clear();
        self.listed.targets.clear();
    }

    /// Everything that is queued, running, or waiting to be repeated.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        self.entries.keys()
    }

    /// The generation of the latest inspect.
    pub(super) fn now(&self) -> Generation {
        Generation(self.clock)
    }

    /// A new generation, after all inspects that have begun and before all later ones.
    pub(super) const fn next_generation(&mut self) -> Generation {
        self.clock += 1;
        Generation(self.clock)
    }

    /// All inspects that began before this one have ended.
    pub(super) fn oldest_running(&self) -> Generation {
        self.running.keys().min().copied().unwrap_or(Generation(self.clock.saturating_add(1)))
    }

    const fn queue(&mut self, reason: Reason) -> &mut Queue {
        match reason {
            Reason::Changed => &mut self.changed,
            Reason::Listed => &mut self.listed,
        }
    }

    fn start_one(&mut self, reason: Reason) -> Option<(Target, Generation)> {
        while self.queue(reason).quick < self.queue(reason).quick_limit {
            let target = self.queue(reason).targets.pop_front()?;
            if let Some(begun) = self.begin(target, Lane::Quick(reason)) {
                self.queue(reason).quick += 1;
                return Some(begun);
            }
        }
        None
    }

    fn begin(&mut self, target: Target, lane: Lane) -> Option<(Target, Generation)> {
        // A target can be in several queues. Only the first one finds it Queued.
        let entry = self.entries.get_mut(&target).filter(|entry| entry.phase == Phase::Queued)?;
        self.clock += 1;
        let generation = Generation(self.clock);
        entry.phase = Phase::Running(generation);
        self.running.insert(generation, lane);
        Some((target, generation))
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
            after: None,
            next_after: None,
            failures: 0,
        }
    }

    /// The next inspect will begin after this.
    const fn begins_after(&mut self, seen: Seen) {
        match self.phase {
            Phase::Running(_) => self.next_after = Some(seen),
            Phase::Queued | Phase::Backoff => self.after = Some(seen),
        }
    }
}

impl Seen {
    /// Whether this event was caused by the call, or by a later call of the same kind.
    fn is_of(self, call: EngineCall) -> bool {
        matches!(self, Self::Event(of, at) if of == call.transition && at >= call.begun_at)
    }
}

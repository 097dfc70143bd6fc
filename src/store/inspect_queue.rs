//! The queue of inspects. The inspects of a target run one after the other, so that their answers arrive in order,
//! unless the target was removed and queued again.
//!
//! ```text
//!             enqueue                start_next                finish
//!   (none) ───────────▶ Queued ───────────────▶ Running ───────────────▶ (none)
//!                          ▲                       │ enqueue                │
//!                          ├───── repeat ◀─────────┘                        │
//!                          └───── Backoff ◀──────────── failed ◀────────────┘
//! ```
//!
//! If a caller asks for an inspect while one of the same target is Running, the caller gets the result of the next
//! inspect (except as below), because only an inspect that began after the caller's change certainly shows the change.
//!
//! If dockbridge creates or starts a container, the engine reports this twice, in its answer to the call and as an
//! event, in either order. One inspect is enough for both reports if it began after the first and still runs at the
//! second ([`InspectQueue::on_event`], [`InspectQueue::add_waiter`]).
//!
//! The queue does no I/O and does not read the time.

use std::collections::{HashMap, VecDeque};

use super::{engine_call::EngineCall, settings::StoreSettings};
use crate::model::{engine::Transition, time::Nanos};

/// What to inspect. The id of an image and each of its names are different targets, which all update one record.
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

/// The number of an inspect or a list, in the order in which they begin. Of two answers about a target, the one with
/// the higher generation is newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Generation(u64);

/// All inspects that are queued, running, or waiting for a retry. `W` is a waiting caller.
#[derive(Debug)]
pub(super) struct InspectQueue<W> {
    entries: HashMap<Target, Entry<W>>,
    urgent: VecDeque<Target>,
    changed: Queue,
    listed: Queue,
    running: HashMap<Generation, Slot>,
    /// The last generation.
    last: u64,
}

/// The reason for an inspect without a waiting caller: a change, or a list of the engine. Each reason has its
/// own limit of running inspects, so slow inspects after a list do not delay inspects after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Changed,
    Listed,
}

/// The end of an inspect: the callers to answer, and whether to retry.
#[derive(Debug)]
pub(super) struct Finished<W> {
    pub(super) waiters: Vec<W>,
    /// How often in a row the inspect has failed. `None` if no timer must repeat the inspect.
    pub(super) failures: Option<u32>,
}

#[derive(Debug)]
struct Entry<W> {
    phase: Phase,
    changed: bool,
    /// Callers that get the result of the queued or running inspect.
    waiting: Vec<W>,
    /// Callers that get the result of the inspect after the running inspect.
    next: Vec<W>,
    /// Whether to queue another inspect after the running one.
    repeat: bool,
    /// The create or start that was reported last before the start of the queued or running inspect.
    shows: Option<Seen>,
    /// The create or start that was reported last since the running inspect began, and needs another inspect.
    next_shows: Option<Seen>,
    failures: u32,
}

/// How dockbridge learned that a container was created or started: from the engine's answer or from an event.
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

/// The limit against which a running inspect counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Quick(Reason),
    Slow(Reason),
    /// An inspect that was queued for a caller. Urgent inspects have no limit, because each caller adds at most one.
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
            last: 0,
        }
    }

    /// Queues an inspect that begins after this method was called, without a waiting caller.
    pub(super) fn enqueue(&mut self, target: &Target, reason: Reason) {
        let changed = reason == Reason::Changed;
        match self.entries.get_mut(target) {
            Some(entry @ Entry { phase: Phase::Queued, .. }) => {
                if !changed || std::mem::replace(&mut entry.changed, true) {
                    return;
                }
            }
            Some(entry @ Entry { phase: Phase::Running(_), .. }) => {
                entry.repeat = true;
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

    /// Queues an inspect because of an event, unless the running inspect began after the engine's answer to a call for
    /// the same transition.
    pub(super) fn on_event(&mut self, target: &Target, transition: Transition, at: Nanos) {
        let running = self.entries.get(target).filter(|it| matches!(it.phase, Phase::Running(_)));
        if running.is_some_and(|entry| entry.shows == Some(Seen::Answer(transition))) {
            return;
        }
        self.enqueue(target, Reason::Changed);
        if let Some(entry) = self.entries.get_mut(target) {
            entry.begins_after(Seen::Event(transition, at));
        }
    }

    /// Queues an inspect for a caller. The caller instead gets the result of the running inspect if the engine has just
    /// answered the call `answered`, if the running inspect began after the event of this call, and if no other inspect
    /// must follow.
    pub(super) fn add_waiter(&mut self, target: Target, answered: Option<EngineCall>, waiter: W) {
        let entry = self.entries.entry(target.clone()).or_insert_with(Entry::new);
        let running = matches!(entry.phase, Phase::Running(_));
        if let Some(call) = answered {
            if running && !entry.repeat && entry.shows.is_some_and(|seen| seen.is_of(call)) {
                entry.waiting.push(waiter);
                return;
            }
            entry.begins_after(Seen::Answer(call.transition));
        }
        if running {
            entry.repeat = true;
            entry.next.push(waiter);
            return;
        }
        entry.phase = Phase::Queued;
        entry.waiting.push(waiter);
        self.urgent.push_back(target);
    }

    /// Marks the next inspect as running, if the limits allow one, and returns it.
    pub(super) fn start_next(&mut self) -> Option<(Target, Generation)> {
        while let Some(target) = self.urgent.pop_front() {
            if let Some(begun) = self.mark_running(target, Slot::Urgent) {
                return Some(begun);
            }
        }
        self.start_from(Reason::Changed).or_else(|| self.start_from(Reason::Listed))
    }

    /// Marks a quick inspect as slow if there is room for slow inspects, so that it no longer delays others.
    pub(super) fn set_slow(&mut self, generation: Generation) {
        let Some(Slot::Quick(reason)) = self.running.get(&generation).copied() else { return };
        let queue = self.queue(reason);
        if queue.slow < queue.slow_limit {
            queue.quick -= 1;
            queue.slow += 1;
            self.running.insert(generation, Slot::Slow(reason));
        }
    }

    pub(super) fn finish(
        &mut self,
        target: &Target,
        generation: Generation,
        success: bool,
    ) -> Finished<W> {
        match self.running.remove(&generation) {
            Some(Slot::Quick(reason)) => self.queue(reason).quick -= 1,
            Some(Slot::Slow(reason)) => self.queue(reason).slow -= 1,
            Some(Slot::Urgent) | None => {}
        }
        let Some(entry) =
            self.entries.get_mut(target).filter(|e| e.phase == Phase::Running(generation))
        else {
            return Finished { waiters: Vec::new(), failures: None };
        };
        let waiters = std::mem::replace(&mut entry.waiting, std::mem::take(&mut entry.next));
        entry.failures = if success { 0 } else { entry.failures.saturating_add(1) };
        entry.shows = entry.next_shows.take();
        let failures = entry.failures;
        if std::mem::take(&mut entry.repeat) {
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

    /// Queues a failed inspect again after its pause.
    pub(super) fn retry(&mut self, target: &Target, reason: Reason) {
        if self.entries.get(target).is_some_and(|entry| entry.phase == Phase::Backoff) {
            self.enqueue(target, reason);
        }
    }

    /// Removes a target that is gone, and returns its callers. The answer of a running inspect is ignored.
    pub(super) fn forget(&mut self, target: &Target) -> Vec<W> {
        let Some(mut entry) = self.entries.remove(target) else { return Vec::new() };
        entry.waiting.append(&mut entry.next);
        entry.waiting
    }

    /// Drops inspects that do not run and have no caller, because the event stream is not open. The engine's
    /// next list queues new inspects.
    pub(super) fn drop_unrequested(&mut self) {
        self.entries.retain(|_, entry| match entry.phase {
            Phase::Queued | Phase::Backoff => !entry.waiting.is_empty(),
            Phase::Running(_) => true,
        });
        self.changed.targets.clear();
        self.listed.targets.clear();
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        self.entries.keys()
    }

    pub(super) fn last_generation(&self) -> Generation {
        Generation(self.last)
    }

    /// Makes a generation that is later than all inspects so far, and earlier than all inspects that follow.
    pub(super) const fn next_generation(&mut self) -> Generation {
        self.last += 1;
        Generation(self.last)
    }

    /// The generation of the oldest running inspect, or the next generation if no inspect runs. All inspects with
    /// a lower generation have ended.
    pub(super) fn oldest_running(&self) -> Generation {
        self.running.keys().min().copied().unwrap_or(Generation(self.last.saturating_add(1)))
    }

    const fn queue(&mut self, reason: Reason) -> &mut Queue {
        match reason {
            Reason::Changed => &mut self.changed,
            Reason::Listed => &mut self.listed,
        }
    }

    fn start_from(&mut self, reason: Reason) -> Option<(Target, Generation)> {
        while self.queue(reason).quick < self.queue(reason).quick_limit {
            let target = self.queue(reason).targets.pop_front()?;
            if let Some(begun) = self.mark_running(target, Slot::Quick(reason)) {
                self.queue(reason).quick += 1;
                return Some(begun);
            }
        }
        None
    }

    fn mark_running(&mut self, target: Target, slot: Slot) -> Option<(Target, Generation)> {
        // A target can be in several queues. An inspect starts only if the target's phase is Queued.
        let entry = self.entries.get_mut(&target).filter(|entry| entry.phase == Phase::Queued)?;
        self.last += 1;
        let generation = Generation(self.last);
        entry.phase = Phase::Running(generation);
        self.running.insert(generation, slot);
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
            repeat: false,
            shows: None,
            next_shows: None,
            failures: 0,
        }
    }

    /// Records that the next inspect of this target will begin after the report `seen`.
    const fn begins_after(&mut self, seen: Seen) {
        match self.phase {
            Phase::Running(_) => self.next_shows = Some(seen),
            Phase::Queued | Phase::Backoff => self.shows = Some(seen),
        }
    }
}

impl Seen {
    /// Whether this is an event of the call's transition since the call began.
    fn is_of(self, call: EngineCall) -> bool {
        matches!(self, Self::Event(of, at) if of == call.transition && at >= call.begun_at)
    }
}

//! The whole of the store's judgement without a clock or a socket: facts, looks, and the state of
//! the link, from which the next snapshot, the next looks and the answers to waiters follow.
//!
//! `W` is who waits for a look; the writer has channels there, tests have numbers.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    facts::{Facts, Sight},
    look::{Looks, Reason, Target, Ticket},
    settings::StoreSettings,
    snapshot::{Progress, Snapshot},
};
use crate::{
    checkpoint::record::SandboxCheckpoint,
    model::{
        engine::{Claim, EngineEvent, EngineHealth, EngineInfo, ListedContainer},
        id::SandboxId,
        record::{ContainerRecord, ImageRecord, Observed, SandboxRecord},
    },
};

/// Everything the engine has.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    pub(super) containers: Vec<ListedContainer>,
    /// None when the engine could not list its images; pods must not suffer from that.
    pub(super) images: Option<Vec<ImageRecord>>,
    /// Of the first list: checkpoints of pods that had none.
    pub(super) adopted: Vec<SandboxCheckpoint>,
}

impl Listing {
    /// The pods in it.
    pub(super) fn sandboxes(&self) -> Vec<SandboxRecord> {
        let observed = self.containers.iter().filter_map(|one| one.observed.as_deref());
        let pods = observed.filter_map(|one| match one {
            Observed::Sandbox(record) => Some(record.clone()),
            Observed::Container(_) | Observed::Foreign(_) => None,
        });
        pods.collect()
    }
}

/// Waiters whose answer becomes true with the next snapshot; the failure is theirs to word.
#[derive(Debug)]
pub(super) struct Answer<W, E> {
    pub(super) waiters: Vec<W>,
    pub(super) result: Result<(), E>,
}

/// What follows from an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing that readers could see.
    None,
    /// A look at this, sooner or later.
    Wanted(Target),
    /// This is gone, from the next snapshot on.
    Gone(Target),
    /// `/info` is worth reading again.
    Reloaded,
}

/// Everything the writer decides by. `E` is why a look failed.
#[derive(Debug)]
pub(super) struct Ledger<W, E> {
    facts: Facts,
    looks: Looks<W>,
    link: Link,
    /// Why the engine counts as silent although its event stream is open.
    silence: Option<String>,
    engine: Option<Arc<EngineInfo>>,
    answers: Vec<Answer<W, E>>,
    /// The head of the snapshot (engine, health, progress) differs from the published one.
    head_changed: bool,
    progress: Progress,
    /// Of the first lists, what no look that began since has answered for yet, and since when.
    unseen: HashMap<Target, Ticket>,
}

#[derive(Debug)]
enum Link {
    /// Nobody asked yet.
    New,
    /// Events flow; these are still to be seen before the picture is whole.
    Stocktaking(HashSet<Target>),
    /// Waiting for the list itself.
    Listing,
    /// Events flow and everything was seen.
    Up,
    /// Trying to reach it.
    Down(String),
}

impl<W, E> Ledger<W, E> {
    pub(super) fn new(settings: &StoreSettings, checkpoints: Vec<SandboxCheckpoint>) -> Self {
        Self {
            facts: Facts::new(checkpoints),
            looks: Looks::new(settings),
            link: Link::New,
            silence: None,
            engine: None,
            answers: Vec::new(),
            head_changed: false,
            progress: Progress::default(),
            unseen: HashMap::new(),
        }
    }

    /// The event stream is open; lists will follow.
    pub(super) fn linked(&mut self) {
        self.turn(Link::Listing);
        self.silence = None;
    }

    /// The engine can no longer be followed.
    pub(super) fn lost(&mut self, reason: String) {
        self.turn(Link::Down(reason));
        self.looks.drop_unasked();
    }

    /// What the engine says of itself.
    pub(super) fn describe(&mut self, engine: EngineInfo) {
        if self.engine.as_deref() != Some(&engine) {
            self.engine = Some(Arc::new(engine));
            self.head_changed = true;
        }
    }

    /// Whether the engine answered a ping.
    pub(super) fn pinged(&mut self, silence: Option<String>) {
        self.head_changed |= self.silence != silence;
        self.silence = silence;
    }

    /// A list of all ids begins.
    pub(super) fn listing(&mut self) {
        self.facts.begin_list(self.looks.stamp());
    }

    /// All ids: whatever is listed or known is worth a look. What is known but not listed is
    /// looked at too, since only an inspect proves that it is gone.
    pub(super) fn listed(&mut self, listing: &Listing) {
        for checkpoint in &listing.adopted {
            self.facts.put(checkpoint.clone());
        }
        let since = self.facts.list_since().unwrap_or_else(|| self.looks.stamp());
        self.facts.list(&listing.containers, self.looks.now());
        self.facts.list_images(listing.images.as_deref().unwrap_or_default(), since);
        let ours = listing.containers.iter().filter(|container| container.claim != Claim::None);
        let mut targets: Vec<Target> =
            ours.map(|container| Target::Container(container.id.clone())).collect();
        let images = listing.images.iter().flatten();
        targets.extend(images.map(|image| Target::Image(image.id.clone().into())));
        let listed: HashSet<Target> = targets.iter().cloned().collect();
        // A look under way may have seen what went before the list was made.
        let known: HashSet<Target> = self
            .facts
            .targets()
            .chain(self.looks.targets().chain(self.unseen.keys()).cloned())
            .collect();
        targets.extend(known.into_iter().filter(|target| !listed.contains(target)));
        for target in &targets {
            self.looks.want(target, Reason::Listed);
        }
        let is_first = !self.progress.containers_listed;
        self.advance(listing.images.is_some(), &targets, since);
        if is_first {
            // What is shown is what the list says.
            self.turn(Link::Up);
        } else if matches!(self.link, Link::Listing | Link::Stocktaking(_)) {
            self.turn(Link::Stocktaking(targets.into_iter().collect()));
            self.settle();
        }
    }

    /// Notes what the first lists of containers and of images leave to be looked at.
    fn advance(&mut self, has_images: bool, targets: &[Target], since: Ticket) {
        let is_new = |target: &&Target| match target {
            Target::Container(_) => !self.progress.containers_listed,
            Target::Image(_) => has_images && !self.progress.images_listed,
        };
        self.unseen.extend(targets.iter().filter(is_new).map(|target| (target.clone(), since)));
        let listed = Progress {
            containers_listed: true,
            images_listed: self.progress.images_listed || has_images,
            ..self.progress
        };
        self.reach(listed);
    }

    /// A target of the first lists was seen, or is gone.
    fn seen(&mut self, target: &Target) {
        if self.unseen.remove(target).is_some() {
            self.reach(self.progress);
        }
    }

    fn reach(&mut self, listed: Progress) {
        let complete = listed.complete || (listed.images_listed && self.unseen.is_empty());
        let now = Progress { complete, ..listed };
        self.head_changed |= self.progress != now;
        self.progress = now;
    }

    /// Something happened.
    pub(super) fn happened(&mut self, event: EngineEvent) -> Effect {
        match event {
            // It is the die that changes something.
            EngineEvent::ContainerKilled { .. } => Effect::None,
            EngineEvent::ContainerChanged { id } | EngineEvent::ContainerOom { id } => {
                if self.facts.is_foreign(&id) {
                    return Effect::None;
                }
                self.want(Target::Container(id))
            }
            EngineEvent::ContainerGone { id } => self.lose(id),
            // An id can come back, so even this is only worth a look.
            EngineEvent::ImageChanged { name } | EngineEvent::ImageGone { id: name } => {
                self.want(Target::Image(name))
            }
            EngineEvent::DaemonReloaded => Effect::Reloaded,
        }
    }

    /// A verb waits for a look that begins from now on.
    pub(super) fn refresh(&mut self, target: Target, waiter: W) {
        self.looks.ask(target, waiter);
    }

    pub(super) fn put(&mut self, checkpoint: SandboxCheckpoint) {
        self.facts.put(checkpoint);
    }

    pub(super) fn forget(&mut self, id: &SandboxId) {
        self.facts.forget(id);
    }

    /// The next look to begin.
    pub(super) fn start(&mut self) -> Option<(Target, Ticket)> {
        self.looks.start()
    }

    /// A look takes long.
    pub(super) fn slowed(&mut self, target: &Target, ticket: Ticket) {
        self.looks.slowed(ticket);
        self.tick_off(target);
    }

    /// A workload waits at the gate, which takes long: until then this much of it is shown, if
    /// nothing was shown before.
    pub(super) fn glimpsed(&mut self, record: ContainerRecord, ticket: Ticket) {
        let target = Target::Container(record.id.as_str().to_owned());
        self.facts.glimpse(record, ticket);
        self.slowed(&target, ticket);
    }

    /// A look came to its end. Returns how often it failed in a row if a timer must repeat it.
    pub(super) fn looked(
        &mut self,
        target: &Target,
        ticket: Ticket,
        result: Result<Sight, E>,
    ) -> Option<u32> {
        let finished = self.looks.finish(target, ticket, result.is_ok());
        if result.is_err() {
            self.facts.miss(target, ticket);
        }
        // An image can be broken for good. Whether it is there, the list tells.
        let is_told = result.is_ok() || matches!(target, Target::Image(_));
        if is_told && self.unseen.get(target).is_some_and(|since| ticket > *since) {
            self.seen(target);
        }
        let result = result.map(|sight| {
            for doubted in self.facts.see(target, ticket, sight) {
                self.looks.want(&doubted, Reason::Changed);
            }
        });
        self.answer(finished.waiters, result);
        self.tick_off(target);
        self.facts.expire(self.looks.horizon());
        finished.rest
    }

    /// The rest after a failed look is over. While the engine is away nothing is gained by
    /// asking again; the next list does.
    pub(super) fn rested(&mut self, target: &Target) {
        if self.is_linked() {
            self.looks.rested(target);
        }
    }

    /// Whether events flow.
    pub(super) const fn is_linked(&self) -> bool {
        matches!(self.link, Link::Listing | Link::Stocktaking(_) | Link::Up)
    }

    /// Whether events flow and everything was seen.
    pub(super) const fn is_up(&self) -> bool {
        matches!(self.link, Link::Up)
    }

    /// Whether there is something new to show, or somebody to answer.
    pub(super) const fn is_due(&self) -> bool {
        self.has_changed() || !self.answers.is_empty()
    }

    /// Whether the next snapshot differs from the last one.
    pub(super) const fn has_changed(&self) -> bool {
        self.head_changed || (self.progress.containers_listed && self.facts.has_changed())
    }

    /// The answers that are true once the current snapshot is published.
    pub(super) fn take_answers(&mut self) -> Vec<Answer<W, E>> {
        std::mem::take(&mut self.answers)
    }

    /// The next snapshot; tables that did not change are shared with the last one. Before the first
    /// list records are not shown: half a list is worse than none.
    pub(super) fn snapshot(&mut self, last: &Snapshot) -> Snapshot {
        self.head_changed = false;
        let mut next = Snapshot {
            engine: self.engine.clone(),
            health: self.health(),
            progress: self.progress,
            ..last.clone()
        };
        if !self.progress.containers_listed {
            return next;
        }
        let changed = self.facts.take_changed();
        if changed.sandboxes || !last.is_synced() {
            next.sandboxes = Arc::new(self.facts.sandboxes());
            next.spent = self.facts.spent();
        }
        if changed.containers {
            next.containers = Arc::new(self.facts.containers());
        }
        if changed.images {
            next.images = Arc::new(self.facts.images());
        }
        next
    }

    fn health(&self) -> EngineHealth {
        let unreachable = |reason: &str| EngineHealth::Unreachable { reason: reason.to_owned() };
        match (&self.link, &self.silence) {
            (Link::Down(reason), _) | (_, Some(reason)) => unreachable(reason),
            (Link::Up, None) => EngineHealth::Reachable,
            (_, None) if self.progress.containers_listed => {
                unreachable("it answers again and is being asked for everything it has")
            }
            (_, None) => EngineHealth::Starting,
        }
    }

    fn turn(&mut self, link: Link) {
        self.link = link;
        self.head_changed = true;
    }

    /// A target of the stock-taking was seen, or takes so long that the others do not wait.
    fn tick_off(&mut self, target: &Target) {
        if let Link::Stocktaking(open) = &mut self.link {
            open.remove(target);
            self.settle();
        }
    }

    fn settle(&mut self) {
        if matches!(&self.link, Link::Stocktaking(open) if open.is_empty()) {
            self.turn(Link::Up);
        }
    }

    fn want(&mut self, target: Target) -> Effect {
        self.looks.want(&target, Reason::Changed);
        Effect::Wanted(target)
    }

    fn lose(&mut self, id: String) -> Effect {
        let was_shown = !self.facts.is_foreign(&id);
        self.facts.lose_container(&id, self.looks.now());
        let target = Target::Container(id);
        let waiters = self.looks.forget(&target);
        self.answer(waiters, Ok(()));
        self.seen(&target);
        self.tick_off(&target);
        if was_shown { Effect::Gone(target) } else { Effect::None }
    }

    fn answer(&mut self, waiters: Vec<W>, result: Result<(), E>) {
        if !waiters.is_empty() {
            self.answers.push(Answer { waiters, result });
        }
    }
}

#[cfg(test)]
mod tests;

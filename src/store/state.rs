//! The state of the store's writer, without a clock or a socket: objects, the inspect queue and the connection. The
//! state determines the next snapshot, the next inspects and the answers to callers.
//!
//! `W` is a caller that waits for an inspect: a channel in the writer, a number in tests.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    engine_call::EngineCall,
    inspect_queue::{Generation, InspectQueue, Reason, Target},
    objects::{Inspected, ObjectCache},
    settings::StoreSettings,
    snapshot::{Progress, Snapshot},
};
use crate::{
    checkpoint::record::SandboxCheckpoint,
    model::{
        engine::{EngineEvent, EngineHealth, EngineInfo, ListedContainer, Ownership},
        id::{ImageId, SandboxId},
        record::{ContainerRecord, ImageRecord, Observed, SandboxRecord},
        time::Nanos,
    },
};

/// The engine's lists of containers and images.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    pub(super) containers: Vec<ListedContainer>,
    /// `None` if the engine could not list its images. Lists of pods do not depend on this list.
    pub(super) images: Option<Vec<ImageRecord>>,
    /// The contents of the checkpoint files of newly adopted pods, which the hook `first_list` has returned.
    pub(super) adopted: Vec<SandboxCheckpoint>,
}

impl Listing {
    pub(super) fn sandboxes(&self) -> Vec<SandboxRecord> {
        let observed = self.containers.iter().filter_map(|one| one.observed.as_deref());
        let pods = observed.filter_map(|one| match one {
            Observed::Sandbox(record) => Some(record.clone()),
            Observed::Container(_) | Observed::Foreign(_) => None,
        });
        pods.collect()
    }

    /// Containers with the type label, whatever its value, that the list does not show as part of a pod, for example
    /// our renamed containers, or copies of them. Only an inspect can tell whether such a container is ours.
    fn unclear(&self) -> HashSet<Target> {
        let is_unclear = |one: &&ListedContainer| {
            one.ownership != Ownership::None
                && matches!(one.observed.as_deref(), None | Some(Observed::Foreign(_)))
        };
        let ids = self.containers.iter().filter(is_unclear).map(|one| one.id.clone());
        ids.map(Target::Container).collect()
    }
}

/// Callers whose inspect has ended, or whose container is gone. They get the answer once a snapshot shows this.
#[derive(Debug)]
pub(super) struct Answer<W, E> {
    pub(super) waiters: Vec<W>,
    pub(super) result: Result<(), E>,
}

/// The data on which the decisions of the writer depend. `E` is the type of the reason why an inspect failed.
#[derive(Debug)]
pub(super) struct StoreState<W, E> {
    objects: ObjectCache,
    inspects: InspectQueue<W>,
    connection: Connection,
    /// Why the engine counts as unreachable although its event stream is open.
    ping_failure: Option<String>,
    engine: Option<Arc<EngineInfo>>,
    answers: Vec<Answer<W, E>>,
    head_changed: bool,
    progress: Progress,
    /// Containers and images of the first lists that have not been inspected yet, each with the generation of its list.
    uninspected: HashMap<Target, Generation>,
    /// Containers for which the store waits before it shows any container: those of [`Listing::unclear`] until
    /// [`StoreState::clarify`] removes them.
    unclear: HashSet<Target>,
}

#[derive(Debug)]
enum Connection {
    /// The store has not tried to connect yet.
    New,
    Listing,
    /// Events arrive. These containers and images, listed or known from before, must still be inspected.
    Inspecting(HashSet<Target>),
    Ready,
    /// There is no connection, for this reason. The store tries to connect to the engine again.
    Lost(String),
}

impl<W, E> StoreState<W, E> {
    pub(super) fn new(settings: &StoreSettings, checkpoints: Vec<SandboxCheckpoint>) -> Self {
        Self {
            objects: ObjectCache::new(checkpoints),
            inspects: InspectQueue::new(settings),
            connection: Connection::New,
            ping_failure: None,
            engine: None,
            answers: Vec::new(),
            head_changed: false,
            progress: Progress::default(),
            uninspected: HashMap::new(),
            unclear: HashSet::new(),
        }
    }

    /// Handles a new connection to the engine: the event stream is open, and lists will follow.
    pub(super) fn connected(&mut self) {
        self.set_connection(Connection::Listing);
        self.ping_failure = None;
    }

    pub(super) fn disconnected(&mut self, reason: String) {
        self.set_connection(Connection::Lost(reason));
        self.inspects.drop_unrequested();
    }

    pub(super) fn set_engine(&mut self, engine: EngineInfo) {
        if self.engine.as_deref() != Some(&engine) {
            self.engine = Some(Arc::new(engine));
            self.head_changed = true;
        }
    }

    /// Handles the end of a ping. `failure` is the reason why the ping failed, or `None` if it succeeded.
    pub(super) fn pinged(&mut self, failure: Option<String>) {
        self.head_changed |= self.ping_failure != failure;
        self.ping_failure = failure;
    }

    pub(super) fn listing(&mut self) {
        self.objects.list_since = Some(self.inspects.next_generation());
    }

    /// Queues inspects of the listed objects, except containers without a type label, and of other known objects,
    /// because a list that lacks a known container does not prove that the container is gone.
    pub(super) fn listed(&mut self, listing: &Listing) {
        for checkpoint in &listing.adopted {
            self.objects.set_checkpoint(&checkpoint.id, Some(checkpoint.clone()));
        }
        let since = self.objects.list_since.unwrap_or_else(|| self.inspects.next_generation());
        self.objects.list(&listing.containers, self.inspects.last_generation());
        if let Some(images) = &listing.images {
            self.objects.list_images(images, since);
        }
        let ours = listing.containers.iter().filter(|one| one.ownership != Ownership::None);
        let mut targets: Vec<Target> =
            ours.map(|container| Target::Container(container.id.clone())).collect();
        let images = listing.images.iter().flatten();
        targets.extend(images.map(|image| Target::Image(image.id.clone().into())));
        let listed: HashSet<Target> = targets.iter().cloned().collect();
        // The answer of a running inspect may show an object that was removed before the list was made.
        let known: HashSet<Target> = self
            .objects
            .targets()
            .chain(self.inspects.targets().chain(self.uninspected.keys()).cloned())
            .collect();
        targets.extend(known.into_iter().filter(|target| !listed.contains(target)));
        let is_first = !self.progress.containers_listed;
        if is_first {
            self.unclear = listing.unclear();
        }
        for target in &targets {
            self.inspects.enqueue(target, self.reason(target));
        }
        self.record_first_lists(listing.images.is_some(), &targets, since);
        if is_first {
            // The first records come from this list, so the connection counts as ready before the inspects.
            self.set_connection(Connection::Ready);
        } else if matches!(self.connection, Connection::Listing | Connection::Inspecting(_)) {
            self.set_connection(Connection::Inspecting(targets.into_iter().collect()));
            self.ready_when_inspected();
        }
    }

    /// Records which containers and images of the first lists must be inspected.
    fn record_first_lists(&mut self, has_images: bool, targets: &[Target], since: Generation) {
        let is_new = |target: &&Target| match target {
            Target::Container(_) => !self.progress.containers_listed,
            Target::Image(_) => has_images && !self.progress.images_listed,
        };
        self.uninspected
            .extend(targets.iter().filter(is_new).map(|target| (target.clone(), since)));
        let listed = Progress {
            // If dockbridge did not list one of our containers, kubelet would replace the container or end the pod.
            containers_listed: self.unclear.is_empty(),
            images_listed: self.progress.images_listed || has_images,
            ..self.progress
        };
        self.set_progress(listed);
    }

    /// Records that a container or image of the first lists was inspected or is gone, or that an image cannot be
    /// inspected.
    fn first_inspected(&mut self, target: &Target) {
        if self.uninspected.remove(target).is_some() {
            self.set_progress(self.progress);
        }
    }

    /// Ends the wait for a container, because an inspect has shown whether it is ours, because its inspects fail
    /// although the engine works, or because it is gone.
    fn clarify(&mut self, target: &Target) {
        if self.unclear.remove(target) && self.unclear.is_empty() {
            self.set_progress(Progress { containers_listed: true, ..self.progress });
        }
    }

    /// Whether the inspect of an object has failed at least twice in a row, the last time although the engine works.
    /// An object whose inspect always fails must not hide all pods. While the engine does not answer at all, failed
    /// inspects prove nothing.
    fn fails_alone(&self, failures: Option<u32>) -> bool {
        self.is_connected() && self.ping_failure.is_none() && failures > Some(1)
    }

    /// Containers in `unclear` use the queue of changed objects, which comes before the queue of listed ones, because
    /// the store shows no container until `unclear` is empty.
    fn reason(&self, target: &Target) -> Reason {
        if self.unclear.contains(target) { Reason::Changed } else { Reason::Listed }
    }

    fn set_progress(&mut self, listed: Progress) {
        let complete = listed.complete || (listed.images_listed && self.uninspected.is_empty());
        let now = Progress { complete, ..listed };
        self.head_changed |= self.progress != now;
        self.progress = now;
    }

    /// Handles an event of the engine. `at` is the event's time on the engine's clock.
    pub(super) fn event(&mut self, event: EngineEvent, at: Nanos) {
        match event {
            EngineEvent::ContainerChanged { id } | EngineEvent::ContainerOom { id } => {
                if !self.objects.is_foreign(&id) {
                    self.inspects.enqueue(&Target::Container(id), Reason::Changed);
                }
            }
            EngineEvent::ContainerTransition { id, transition } => {
                if !self.objects.is_foreign(&id) {
                    self.inspects.on_event(&Target::Container(id), transition, at);
                }
            }
            EngineEvent::ContainerGone { id } => self.container_gone(id),
            // A removed image can be pulled again, so the event does not prove that the image is gone.
            EngineEvent::ImageChanged { name } => {
                self.inspects.enqueue(&Target::Image(name), Reason::Changed);
            }
            // A kill itself changes no state: if the container ends, a `die` event follows. After an unreadable event,
            // the event stream lists all containers and images again. After a reload of the engine's configuration,
            // the writer reads `/info`.
            EngineEvent::ContainerKilled { .. }
            | EngineEvent::Unreadable { .. }
            | EngineEvent::DaemonReloaded => {}
        }
    }

    /// Queues an inspect for a caller. If the engine has just answered a call, an inspect that shows the
    /// effect of this call is enough.
    pub(super) fn refresh(&mut self, target: Target, answered: Option<EngineCall>, waiter: W) {
        self.inspects.add_waiter(target, answered, waiter);
    }

    pub(super) fn image_unlisted(&mut self, id: &ImageId) {
        self.objects.image_unlisted(id, self.inspects.next_generation());
    }

    pub(super) fn set_checkpoint(&mut self, id: &SandboxId, checkpoint: Option<SandboxCheckpoint>) {
        self.objects.set_checkpoint(id, checkpoint);
    }

    pub(super) fn start(&mut self) -> Option<(Target, Generation)> {
        self.inspects.start_next()
    }

    pub(super) fn set_slow(&mut self, target: &Target, at: Generation) {
        self.inspects.set_slow(at);
        self.mark_inspected(target);
    }

    /// Until the slow hook has ended, the store shows the container's last known state, or `record` if there is none.
    pub(super) fn show_provisional(&mut self, record: ContainerRecord, at: Generation) {
        let target = Target::Container(record.id.as_str().to_owned());
        self.objects.put_provisional(record, at);
        self.clarify(&target);
        self.set_slow(&target, at);
    }

    /// Handles the end of an inspect. Returns the number of failures in a row if a timer must retry.
    pub(super) fn inspected(
        &mut self,
        target: &Target,
        at: Generation,
        result: Result<Inspected, E>,
    ) -> Option<u32> {
        let finished = self.inspects.finish(target, at, result.is_ok());
        let is_clear = result.is_ok() || self.fails_alone(finished.failures);
        if result.is_err() {
            self.objects.inspect_failed(target, at);
        }
        // The engine may be unable to inspect a damaged image. The list shows that the image exists.
        let counts = result.is_ok() || matches!(target, Target::Image(_));
        if counts && self.uninspected.get(target).is_some_and(|since| at > *since) {
            self.first_inspected(target);
        }
        let result = result.map(|inspected| {
            for doubtful in self.objects.put(target, at, inspected) {
                self.inspects.enqueue(&doubtful, Reason::Changed);
            }
        });
        self.answer(finished.waiters, result);
        if is_clear {
            self.clarify(target);
        }
        self.mark_inspected(target);
        self.objects.expire(self.inspects.oldest_running());
        finished.failures
    }

    /// Queues a failed inspect again after its pause. Does nothing while the event stream is not open,
    /// because the next list causes an inspect.
    pub(super) fn retry(&mut self, target: &Target) {
        if self.is_connected() {
            self.inspects.retry(target, self.reason(target));
        }
    }

    pub(super) const fn is_connected(&self) -> bool {
        use Connection::{Inspecting, Listing, Ready};
        matches!(self.connection, Listing | Inspecting(_) | Ready)
    }

    /// Whether events arrive, and the connection waits for no list or inspect.
    pub(super) const fn is_ready(&self) -> bool {
        matches!(self.connection, Connection::Ready)
    }

    /// Whether there is a new state to publish, or a caller to answer.
    pub(super) const fn is_due(&self) -> bool {
        self.has_changed() || !self.answers.is_empty()
    }

    /// Whether something has changed since the last snapshot, so that a new snapshot must be made.
    pub(super) const fn has_changed(&self) -> bool {
        self.head_changed || (self.progress.containers_listed && self.objects.has_changed())
    }

    /// Removes and returns the answers to send once the current snapshot is published.
    pub(super) fn take_answers(&mut self) -> Vec<Answer<W, E>> {
        std::mem::take(&mut self.answers)
    }

    /// Makes the next snapshot, which shares unchanged tables with the last snapshot. Before the first list, and while
    /// `unclear` is not empty, a snapshot has no pods, containers or images: clients must not see an incomplete list.
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
        let changed = self.objects.take_changed();
        if changed.sandboxes || !last.is_synced() {
            next.sandboxes = Arc::new(self.objects.sandboxes());
            next.obsolete = self.objects.obsolete_checkpoints();
        }
        if changed.containers {
            next.containers = Arc::new(self.objects.containers());
        }
        if changed.images {
            next.images = Arc::new(self.objects.images());
        }
        next
    }

    fn health(&self) -> EngineHealth {
        let unreachable = |reason: &str| EngineHealth::Unreachable { reason: reason.to_owned() };
        match (&self.connection, &self.ping_failure) {
            (Connection::Lost(reason), _) | (_, Some(reason)) => unreachable(reason),
            (_, None) if !self.progress.containers_listed => EngineHealth::Starting,
            (Connection::Ready, None) => EngineHealth::Reachable,
            (_, None) => unreachable("Docker answers again; reading containers and images"),
        }
    }

    fn set_connection(&mut self, connection: Connection) {
        self.connection = connection;
        self.head_changed = true;
    }

    /// Ends the connection's wait for an object: its inspect has ended or is slow, or the object is gone.
    fn mark_inspected(&mut self, target: &Target) {
        if let Connection::Inspecting(open) = &mut self.connection {
            open.remove(target);
            self.ready_when_inspected();
        }
    }

    fn ready_when_inspected(&mut self) {
        if matches!(&self.connection, Connection::Inspecting(open) if open.is_empty()) {
            self.set_connection(Connection::Ready);
        }
    }

    fn container_gone(&mut self, id: String) {
        self.objects.container_gone(&id, self.inspects.last_generation());
        let target = Target::Container(id);
        let waiters = self.inspects.forget(&target);
        self.answer(waiters, Ok(()));
        self.first_inspected(&target);
        self.clarify(&target);
        self.mark_inspected(&target);
    }

    fn answer(&mut self, waiters: Vec<W>, result: Result<(), E>) {
        if !waiters.is_empty() {
            self.answers.push(Answer { waiters, result });
        }
    }
}

#[cfg(test)]
mod tests;

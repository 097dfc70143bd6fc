//! GetContainerEvents: sends the changes between successive snapshots of the store to all listeners.
//!
//! dockbridge renders each event once. All listeners share one queue, which [`MOST_QUEUED`] limits. A listener that
//! reads so slowly that its events are discarded gets an error.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use futures_util::{
    future::{OptionFuture, join_all},
    stream::{self, StreamExt},
};
use parking_lot::Mutex;
use tokio::{
    sync::{
        broadcast::{self, error::RecvError},
        mpsc,
    },
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tonic::{Status, codegen::BoxStream};

use super::status::status;
use crate::{
    container::{limits::service::Limits, node::Node},
    error::Kind,
    host::clock,
    model::{
        record::{ContainerRecord, SandboxRecord},
        time::Nanos,
    },
    nri::service::Nri,
    store::{
        changes::{Change, ChangeTracker},
        handle::Store,
        pending_changes::PendingChanges,
        settings::SYNC_TIMEOUT,
        snapshot::Snapshot,
    },
    telemetry::metric::GaugeGuard,
    translate::render::{
        container::ContainerView,
        event::{Pod, event},
    },
    wire::cri,
};

/// Sends container events to all listeners. Clones share the listeners.
#[derive(Clone, Debug)]
pub struct Events {
    store: Store,
    nri: Nri,
    limits: Limits,
    shutdown: CancellationToken,
    /// `None` while no task compares snapshots for listeners.
    listeners: Arc<Mutex<Option<broadcast::Sender<Arc<RenderedEvents>>>>>,
}

/// The events of one batch. `None` after the queue has discarded the batch.
#[derive(Debug)]
struct RenderedEvents(Mutex<Option<Vec<cri::ContainerEventResponse>>>);

#[derive(Debug)]
struct EventQueue {
    listeners: broadcast::Sender<Arc<RenderedEvents>>,
    /// Batches that a listener may still have to read, with their sizes in bytes.
    sent: VecDeque<(Weak<RenderedEvents>, usize)>,
}

/// Changes that are not rendered yet. An event shows its pod as in `shown`, or as in the change if the pod is gone.
#[derive(Debug)]
struct Batch {
    shown: Arc<Snapshot>,
    changes: Vec<Change>,
    /// kubelet reads this as the time of the state in the event, so it must not be later than the snapshot `shown`.
    at: Nanos,
}

impl Events {
    /// Creates the source of events for a node's store.
    pub fn new(node: &Node, limits: Limits, shutdown: CancellationToken) -> Self {
        let (store, nri) = (node.store.clone(), node.nri.clone());
        Self { store, nri, limits, shutdown, listeners: Arc::default() }
    }

    /// Streams the changes from now on, and perhaps a few earlier ones, until the listener disconnects or reads too
    /// slowly, or dockbridge stops or is overloaded. Fails if the store is not synced in time.
    pub(super) async fn listen(
        &self,
        listening: GaugeGuard,
    ) -> Result<BoxStream<cri::ContainerEventResponse>, Status> {
        self.store.synced(SYNC_TIMEOUT).await?;
        Ok(listener_stream(self.join(), listening)
            .take_until(self.shutdown.clone().cancelled_owned())
            .boxed())
    }

    fn join(&self) -> broadcast::Receiver<Arc<RenderedEvents>> {
        let mut listeners = self.listeners.lock();
        if let Some(events) = &*listeners {
            return events.subscribe();
        }
        let (sender, events) = broadcast::channel(QUEUED_BATCHES);
        let (batches, queue) = mpsc::channel(QUEUED_BATCHES);
        let now = self.store.snapshot();
        let tracker = ChangeTracker::new(&self.nri.shown(Arc::clone(&now)));
        tokio::spawn(self.clone().follow(now, tracker, batches));
        tokio::spawn(self.clone().render(queue, sender.clone()));
        *listeners = Some(sender);
        events
    }

    /// Compares snapshots until the last listener has disconnected, dockbridge stops, or the queue of batches is full.
    /// Does no slow work, to miss few snapshots.
    async fn follow(
        self,
        mut now: Arc<Snapshot>,
        mut tracker: ChangeTracker,
        batches: mpsc::Sender<Batch>,
    ) {
        let mut reveals = self.nri.reveals();
        let mut pending = PendingChanges::default();
        loop {
            let newer = self.store.when(|newer| (!Arc::ptr_eq(newer, &now)).then_some(()));
            let overdue = OptionFuture::from(pending.deadline().map(sleep_until));
            let more = tokio::select! {
                more = newer => more.is_some(),
                Some(()) = overdue => true,
                () = reveals.next() => true,
                () = self.shutdown.cancelled() => false,
            };
            if !more {
                return *self.listeners.lock() = None;
            }
            if self.end_without_listeners() {
                return;
            }
            let at = Nanos(clock::nanos());
            now = self.store.snapshot();
            // `shown` lacks pods and containers until NRI plugins have accepted them, which delays their events.
            let shown = self.nri.shown(Arc::clone(&now));
            pending.push(tracker.changes(&shown), Instant::now());
            let changes = pending.take_ready(&shown, Instant::now());
            // The task that renders reads cgroup files and never asks the engine, so its queue is full only on an
            // overloaded host. The streams of all listeners then end after the queued events.
            if !changes.is_empty() && batches.try_send(Batch { shown, changes, at }).is_err() {
                return *self.listeners.lock() = None;
            }
        }
    }

    /// Renders and sends the changes that [`Self::follow`] found.
    async fn render(
        self,
        mut batches: mpsc::Receiver<Batch>,
        listeners: broadcast::Sender<Arc<RenderedEvents>>,
    ) {
        let mut queue = EventQueue { listeners, sent: VecDeque::new() };
        while let Some(Batch { shown, changes, at }) = batches.recv().await {
            let mut events = Vec::new();
            for change in changes {
                let latest = shown.sandbox(change.sandbox.id.as_str()).unwrap_or(&change.sandbox);
                let pod = pod(&shown, latest, &self.limits).await;
                events.push(event(&change.id, change.step, &pod, at));
            }
            queue.send(events);
        }
    }

    /// Removes the queue if no listener is left, and returns whether it did. A later listener gets only later changes.
    fn end_without_listeners(&self) -> bool {
        let mut listeners = self.listeners.lock();
        let has_no_listener = listeners.as_ref().is_none_or(|events| events.receiver_count() == 0);
        if has_no_listener {
            *listeners = None;
        }
        has_no_listener
    }
}

impl EventQueue {
    /// Sends events. While more than [`MOST_QUEUED`] bytes wait, discards the oldest batch, but never the new one.
    fn send(&mut self, events: Vec<cri::ContainerEventResponse>) {
        self.sent.retain(|(events, _)| events.strong_count() > 0);
        let size = events.iter().map(prost::Message::encoded_len).sum();
        let events = Arc::new(RenderedEvents(Mutex::new(Some(events))));
        let mut queued = size + self.sent.iter().map(|(_, size)| size).sum::<usize>();
        while queued > MOST_QUEUED
            && let Some((oldest, size)) = self.sent.pop_front()
        {
            if let Some(oldest) = oldest.upgrade() {
                *oldest.0.lock() = None;
            }
            queued -= size;
        }
        self.sent.push_back((Arc::downgrade(&events), size));
        // `send` fails if the last listener has disconnected.
        let _ = self.listeners.send(events);
    }
}

fn listener_stream(
    events: broadcast::Receiver<Arc<RenderedEvents>>,
    listening: GaugeGuard,
) -> impl stream::Stream<Item = Result<cri::ContainerEventResponse, Status>> + Send {
    let listener = Some((events, None, listening));
    stream::unfold(listener, |listener| async {
        let (mut events, mut current, listening) = listener?;
        loop {
            let (batch, next): (Arc<RenderedEvents>, usize) = match current.take() {
                Some(current) => current,
                None => match events.recv().await {
                    Ok(newer) => (newer, 0),
                    Err(RecvError::Closed) => return None,
                    Err(RecvError::Lagged(_)) => return Some((Err(too_slow()), None)),
                },
            };
            // This clones one event at a time, so a client that does not read holds few copies. The stream drops the
            // batch with its last event, so that this listener gets no error if the queue discards the batch.
            let (event, is_last) = match &*batch.0.lock() {
                Some(events) => (events.get(next).cloned(), next + 1 >= events.len()),
                None => return Some((Err(too_slow()), None)),
            };
            let rest = (!is_last).then_some((batch, next + 1));
            match event {
                Some(event) => return Some((Ok(event), Some((events, rest, listening)))),
                None => current = rest,
            }
        }
    })
}

fn too_slow() -> Status {
    let text = "the client read too slowly and missed events: subscribe again, then list all \
                containers";
    status(Kind::ResourceExhausted, text.to_owned())
}

/// A pod with all its containers, as the snapshot `now` has them.
pub async fn pod<'a>(now: &'a Snapshot, sandbox: &'a SandboxRecord, limits: &Limits) -> Pod<'a> {
    let all = now.containers_of(&sandbox.id).map(|record| view(now, record, limits));
    Pod { sandbox, containers: join_all(all).await }
}

/// A container as the snapshot `now` has it, with its current limits.
pub async fn view<'a>(
    now: &'a Snapshot,
    record: &'a ContainerRecord,
    limits: &Limits,
) -> ContainerView<'a> {
    let image = now.image(record.document.image_id.as_str()).map(|image| &**image);
    ContainerView { record, image, limits: limits.shown(record).await }
}

/// How many batches can wait for rendering, and how many for a listener. A batch can have any number of events.
const QUEUED_BATCHES: usize = 1024;

/// Limit of the encoded events that wait, in bytes: several times a full node's events. A larger batch waits alone.
const MOST_QUEUED: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metric::Gauge;

    fn events(names: &[&str]) -> Vec<cri::ContainerEventResponse> {
        let event = |name: &&str| cri::ContainerEventResponse {
            container_id: (*name).to_owned(),
            ..Default::default()
        };
        names.iter().map(event).collect()
    }

    fn queue(batches: usize) -> (EventQueue, broadcast::Receiver<Arc<RenderedEvents>>) {
        let (listeners, first) = broadcast::channel(batches);
        (EventQueue { listeners, sent: VecDeque::new() }, first)
    }

    #[tokio::test]
    async fn a_listener_that_does_not_read_gets_an_error_and_delays_no_other() {
        let (mut queue, unread) = queue(2);
        let listeners = Gauge::default();
        let reading = queue.listeners.subscribe();
        let mut reading = Box::pin(listener_stream(reading, GaugeGuard::of(listeners.clone())));
        let mut unread = Box::pin(listener_stream(unread, GaugeGuard::of(listeners.clone())));
        for round in ["a", "b", "c"] {
            queue.send(events(&[round, "x"]));
            assert_eq!(reading.next().await.unwrap().unwrap().container_id, round);
            assert_eq!(reading.next().await.unwrap().unwrap().container_id, "x");
        }
        let end = unread.next().await.unwrap().unwrap_err();
        assert_eq!(end.code(), tonic::Code::ResourceExhausted);
        assert!(unread.next().await.is_none());
        assert_eq!(listeners.get(), 1);
        drop(queue);
        assert!(reading.next().await.is_none());
        assert_eq!(listeners.get(), 0);
    }

    #[tokio::test]
    async fn events_that_are_not_read_take_a_bounded_number_of_bytes() {
        let (mut queue, unread) = queue(QUEUED_BATCHES);
        let listeners = Gauge::default();
        let reading = queue.listeners.subscribe();
        let mut reading = Box::pin(listener_stream(reading, GaugeGuard::of(listeners.clone())));
        let mut unread = Box::pin(listener_stream(unread, GaugeGuard::of(listeners.clone())));
        let large = "x".repeat(MOST_QUEUED / 4);
        let held = |queue: &EventQueue| {
            let sent = queue.sent.iter().filter_map(|(events, _)| events.upgrade());
            sent.filter(|events| events.0.lock().is_some()).count()
        };
        queue.send(events(&["first", "second"]));
        assert_eq!(unread.next().await.unwrap().unwrap().container_id, "first");
        assert_eq!(reading.next().await.unwrap().unwrap().container_id, "first");
        assert_eq!(reading.next().await.unwrap().unwrap().container_id, "second");
        for _ in 0..8 {
            queue.send(events(&[&large]));
            assert_eq!(reading.next().await.unwrap().unwrap().container_id, large);
            assert!(
                held(&queue) <= 4,
                "the queue holds {} batches, each a quarter of the queue's limit",
                held(&queue)
            );
        }
        let end = unread.next().await.unwrap().unwrap_err();
        assert_eq!(end.code(), tonic::Code::ResourceExhausted);
        drop(unread);
        // A batch that is larger than the limit may wait alone.
        queue.send(events(&[&large.repeat(5)]));
        assert_eq!(held(&queue), 1);
        assert_eq!(reading.next().await.unwrap().unwrap().container_id.len(), large.len() * 5);
        queue.send(events(&["last"]));
        assert_eq!(reading.next().await.unwrap().unwrap().container_id, "last");
        drop(reading);
        assert_eq!(held(&queue), 0, "the queue keeps nothing for listeners that have left");
    }
}

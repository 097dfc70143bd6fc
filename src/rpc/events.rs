//! GetContainerEvents: what happened between two snapshots of the store, for every listener.
//!
//! Each event is rendered once, however many listen. A slow listener delays no other: events wait in
//! one queue for all of them, up to a bound; a listener that falls behind by more gets an error.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{
    future::{OptionFuture, join_all},
    stream::{self, StreamExt},
};
use tokio::{
    sync::{
        broadcast::{self, error::RecvError},
        mpsc,
    },
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tonic::{Status, codegen::BoxStream};

use super::status::{failed, status};
use crate::{
    container::service::Containers,
    error::Kind,
    host::clock,
    model::{
        record::{ContainerRecord, SandboxRecord},
        time::Nanos,
    },
    store::{
        changes::{Change, ChangeTracker},
        handle::Store,
        pending_changes::PendingChanges,
        settings::SYNC_TIMEOUT,
        snapshot::Snapshot,
    },
    telemetry::metric::{Counter, GaugeGuard},
    translate::render::{
        container::ContainerView,
        event::{Pod, event},
    },
    wire::cri,
};

/// The source of container events. Clones share it.
#[derive(Clone, Debug)]
pub struct Events {
    store: Store,
    containers: Containers,
    /// Cancelled when dockbridge ends: then all streams end.
    leaving: CancellationToken,
    /// The queue to the listeners; none while there is no listener.
    listeners: Arc<Mutex<Option<broadcast::Sender<RenderedEvents>>>>,
    rendered: Counter,
}

/// Events that were rendered together.
#[derive(Clone, Debug)]
struct RenderedEvents(Arc<[cri::ContainerEventResponse]>);

/// Changes to render as `shown` has their pods.
#[derive(Debug)]
struct Batch {
    shown: Arc<Snapshot>,
    changes: Vec<Change>,
    /// The kubelet takes the time of an event for the time of the state in it: not after `shown`.
    at: Nanos,
}

impl Events {
    /// Of this store; each event is counted once.
    pub fn new(
        store: Store,
        containers: Containers,
        leaving: CancellationToken,
        rendered: Counter,
    ) -> Self {
        Self { store, containers, leaving, listeners: Arc::default(), rendered }
    }

    /// Everything that happens from now on, until the listener leaves or dockbridge ends. Changes of
    /// a moment ago may be sent, too, if there are other listeners.
    ///
    /// # Errors
    /// The store is not synced in time.
    pub(super) async fn listen(
        &self,
        listening: GaugeGuard,
    ) -> Result<BoxStream<cri::ContainerEventResponse>, Status> {
        self.store.synced(SYNC_TIMEOUT).await.map_err(failed)?;
        Ok(listener_stream(self.join(), listening)
            .take_until(self.leaving.clone().cancelled_owned())
            .boxed())
    }

    fn join(&self) -> broadcast::Receiver<RenderedEvents> {
        let mut listeners = self.listeners();
        if let Some(events) = &*listeners {
            return events.subscribe();
        }
        let (sender, events) = broadcast::channel(QUEUED_BATCHES);
        let (batches, queue) = mpsc::unbounded_channel();
        let now = self.store.snapshot();
        let tracker = ChangeTracker::new(&self.shown(&now));
        tokio::spawn(self.clone().follow(now, tracker, batches));
        tokio::spawn(self.clone().render(queue, sender.clone()));
        *listeners = Some(sender);
        events
    }

    /// Compares snapshots until the last listener has left. Nothing here waits for anything but the
    /// next snapshot, so that none is missed.
    async fn follow(
        self,
        mut now: Arc<Snapshot>,
        mut tracker: ChangeTracker,
        batches: mpsc::UnboundedSender<Batch>,
    ) {
        let mut reveals = self.containers.nri().reveals();
        let mut pending = PendingChanges::default();
        loop {
            let newer = self.store.when(|newer| (!Arc::ptr_eq(newer, &now)).then_some(()));
            let overdue = OptionFuture::from(pending.deadline().map(sleep_until));
            let more = tokio::select! {
                more = newer => more.is_some(),
                Some(()) = overdue => true,
                () = reveals.next() => true,
                () = self.leaving.cancelled() => false,
            };
            if !more {
                // Listeners that are still there get the end of the stream.
                return *self.listeners() = None;
            }
            if self.end_unheard() {
                return;
            }
            let at = Nanos(clock::nanos());
            now = self.store.snapshot();
            let shown = self.shown(&now);
            pending.push(tracker.changes(&shown), Instant::now());
            let changes = pending.take_ready(&shown, Instant::now());
            if !changes.is_empty() {
                // The other task ends after this one.
                let _ = batches.send(Batch { shown, changes, at });
            }
        }
    }

    /// Renders and sends what [`Self::follow`] found.
    async fn render(
        self,
        mut queue: mpsc::UnboundedReceiver<Batch>,
        listeners: broadcast::Sender<RenderedEvents>,
    ) {
        while let Some(Batch { shown, changes, at }) = queue.recv().await {
            let mut events = Vec::new();
            for change in changes {
                let latest = shown.sandbox(change.sandbox.id.as_str()).unwrap_or(&change.sandbox);
                let pod = pod(&shown, latest, &self.containers).await;
                events.push(event(&change.id, change.step, &pod, at));
                self.rendered.inc();
            }
            // The last listener may have left.
            let _ = listeners.send(RenderedEvents(events.into()));
        }
    }

    /// Whether nobody listens any more; whoever joins from then on begins anew.
    fn end_unheard(&self) -> bool {
        let mut listeners = self.listeners();
        let is_unheard = listeners.as_ref().is_none_or(|events| events.receiver_count() == 0);
        if is_unheard {
            *listeners = None;
        }
        is_unheard
    }

    fn listeners(&self) -> MutexGuard<'_, Option<broadcast::Sender<RenderedEvents>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What plugins are still asked about is told when they agreed.
    fn shown(&self, now: &Arc<Snapshot>) -> Arc<Snapshot> {
        self.containers.nri().shown(Arc::clone(now))
    }
}

/// The stream of one listener.
fn listener_stream(
    events: broadcast::Receiver<RenderedEvents>,
    listening: GaugeGuard,
) -> impl stream::Stream<Item = Result<cri::ContainerEventResponse, Status>> + Send {
    let listener = Some((events, VecDeque::new(), listening));
    stream::unfold(listener, |listener| async {
        let (mut events, mut waiting, listening) = listener?;
        while waiting.is_empty() {
            match events.recv().await {
                Ok(RenderedEvents(newer)) => waiting.extend(newer.iter().cloned()),
                Err(RecvError::Closed) => return None,
                Err(RecvError::Lagged(_)) => return Some((Err(too_slow()), None)),
            }
        }
        let event = waiting.pop_front()?;
        Some((Ok(event), Some((events, waiting, listening))))
    })
}

fn too_slow() -> Status {
    let text = "this listener has not read for too long and missed events: list, and listen again";
    status(Kind::ResourceExhausted, text.to_owned())
}

/// A pod with all its containers, as `now` shows them.
pub async fn pod<'a>(
    now: &'a Snapshot,
    sandbox: &'a SandboxRecord,
    containers: &Containers,
) -> Pod<'a> {
    let all = now.containers_of(&sandbox.id).iter().map(|record| view(now, record, containers));
    Pod { sandbox, containers: join_all(all).await }
}

/// A container as `now` shows it, with the limits in force.
pub async fn view<'a>(
    now: &'a Snapshot,
    record: &'a ContainerRecord,
    containers: &Containers,
) -> ContainerView<'a> {
    let image = now.image(record.document.image_id.as_str()).map(|image| &**image);
    ContainerView { record, image, limits: containers.limits(record).await }
}

/// Batches of events that wait for a listener. A burst of any size is in one.
const QUEUED_BATCHES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metric::Gauge;

    fn events(names: &[&str]) -> RenderedEvents {
        let event = |name: &&str| cri::ContainerEventResponse {
            container_id: (*name).to_owned(),
            ..Default::default()
        };
        RenderedEvents(names.iter().map(event).collect())
    }

    #[tokio::test]
    async fn a_listener_that_does_not_read_gets_an_error_and_delays_no_other() {
        let (sender, deaf) = broadcast::channel(2);
        let listeners = Gauge::default();
        let mut reading = Box::pin(listener_stream(sender.subscribe(), listeners.inc_while_held()));
        let mut deaf = Box::pin(listener_stream(deaf, listeners.inc_while_held()));
        for round in ["a", "b", "c"] {
            sender.send(events(&[round, "x"])).unwrap();
            assert_eq!(reading.next().await.unwrap().unwrap().container_id, round);
            assert_eq!(reading.next().await.unwrap().unwrap().container_id, "x");
        }
        let end = deaf.next().await.unwrap().unwrap_err();
        assert_eq!(end.code(), tonic::Code::ResourceExhausted);
        assert!(deaf.next().await.is_none());
        assert_eq!(listeners.get(), 1);
        drop(sender);
        assert!(reading.next().await.is_none());
        assert_eq!(listeners.get(), 0);
    }
}

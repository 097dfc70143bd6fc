//! GetContainerEvents: what happened between two snapshots of the store, for every listener.
//!
//! Each event is rendered once, however many listen. A slow listener delays no other: events wait in
//! one queue for all of them, up to a bound; a listener that falls behind by more gets an error.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::{
    future::join_all,
    stream::{self, StreamExt},
};
use tokio::sync::{
    Mutex,
    broadcast::{self, error::RecvError},
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
    /// None while there is no listener.
    tracking: Arc<Mutex<Option<Tracking>>>,
    rendered: Counter,
}

/// The events of one snapshot, rendered.
#[derive(Clone, Debug)]
struct RenderedEvents(Arc<[cri::ContainerEventResponse]>);

/// The last snapshot, and the queue to the listeners.
#[derive(Debug)]
struct Tracking {
    tracker: ChangeTracker,
    now: Arc<Snapshot>,
    events: broadcast::Sender<RenderedEvents>,
}

impl Events {
    /// Of this store; each event is counted once.
    pub fn new(
        store: Store,
        containers: Containers,
        leaving: CancellationToken,
        rendered: Counter,
    ) -> Self {
        Self { store, containers, leaving, tracking: Arc::default(), rendered }
    }

    /// Everything that happens from now on, until the listener leaves or dockbridge ends.
    ///
    /// # Errors
    /// The store is not synced in time.
    pub(super) async fn listen(
        &self,
        listening: GaugeGuard,
    ) -> Result<BoxStream<cri::ContainerEventResponse>, Status> {
        self.store.synced(SYNC_TIMEOUT).await.map_err(failed)?;
        let events = self.join().await;
        Ok(listener_stream(events, listening)
            .take_until(self.leaving.clone().cancelled_owned())
            .boxed())
    }

    /// What happened before now is sent to the other listeners first.
    async fn join(&self) -> broadcast::Receiver<RenderedEvents> {
        let mut tracking = self.tracking.lock().await;
        if let Some(tracking) = &mut *tracking {
            self.advance(tracking).await;
            return tracking.events.subscribe();
        }
        let now = self.store.snapshot();
        let (sender, events) = broadcast::channel(QUEUED_SNAPSHOTS);
        *tracking = Some(Tracking {
            tracker: ChangeTracker::new(&self.shown(&now)),
            now: Arc::clone(&now),
            events: sender,
        });
        tokio::spawn(self.clone().follow(now));
        events
    }

    /// Sends events until the last listener has left.
    async fn follow(self, mut last: Arc<Snapshot>) {
        let mut reveals = self.containers.nri().reveals();
        loop {
            let newer = self.store.when(|now| (!Arc::ptr_eq(now, &last)).then_some(()));
            let more = tokio::select! {
                more = newer => more.is_some(),
                () = reveals.next() => true,
                () = self.leaving.cancelled() => false,
            };
            let mut tracking = self.tracking.lock().await;
            let has_listeners =
                tracking.as_ref().is_some_and(|tracking| tracking.events.receiver_count() > 0);
            match &mut *tracking {
                Some(tracking) if more && has_listeners => {
                    self.advance(tracking).await;
                    last = Arc::clone(&tracking.now);
                }
                // Listeners that are still there get the end of the stream.
                _ => return *tracking = None,
            }
        }
    }

    /// Sends what happened since the last snapshot.
    async fn advance(&self, tracking: &mut Tracking) {
        // The kubelet takes the time of an event for the time of the state in it.
        let at = Nanos(clock::nanos());
        let now = self.store.snapshot();
        let changes = tracking.tracker.changes(&self.shown(&now));
        let shown = self.shown(&self.inspected(&now, &changes).await);
        let mut events = Vec::new();
        for change in changes {
            let pod = pod(&shown, &change.sandbox, &self.containers).await;
            events.push(event(&change.id, change.step, &pod, at));
            self.rendered.inc();
        }
        tracking.now = now;
        if !events.is_empty() {
            // The last listener may have left meanwhile.
            let _ = tracking.events.send(RenderedEvents(events.into()));
        }
    }

    /// What plugins are still asked about is told when they agreed.
    fn shown(&self, now: &Arc<Snapshot>) -> Arc<Snapshot> {
        self.containers.nri().shown(Arc::clone(now))
    }

    /// The kubelet takes an event for a status of the whole pod, so all its containers are inspected
    /// first, as for a status; where the engine does not answer, the state of its list is sent.
    async fn inspected(&self, now: &Arc<Snapshot>, changes: &[Change]) -> Arc<Snapshot> {
        let is_listed = |one: &Arc<ContainerRecord>| one.process.is_listed();
        let is_seen = |now: &Snapshot| {
            let mut pods = changes.iter().map(|change| now.containers_of(&change.sandbox.id));
            (!pods.any(|containers| containers.iter().any(is_listed))).then_some(())
        };
        if is_seen(now).is_some() {
            return Arc::clone(now);
        }
        self.store.wait(INSPECT_TIMEOUT, is_seen).await;
        self.store.snapshot()
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

/// How long inspects may delay events.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Snapshots with events that wait for a listener. A burst of any size is in one.
const QUEUED_SNAPSHOTS: usize = 1024;

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

//! `GetContainerEvents`: what the store's snapshots say happened, told to whoever listens.
//!
//! Each event is rendered and encoded once, however many listen. A slow listener holds up nobody
//! and costs nothing but its place: what it has not taken is kept for all of them together, up to
//! a bound beyond which its stream ends and says so.

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
        container::Held,
        event::{Pod, event},
    },
    wire::cri,
};

/// Tells what happens. Clones tell the same.
#[derive(Clone, Debug)]
pub struct Events {
    store: Store,
    containers: Containers,
    /// Cancelled when dockbridge ends: then all streams end.
    leaving: CancellationToken,
    /// None while nobody listens.
    feed: Arc<Mutex<Option<Feed>>>,
    rendered: Counter,
}

/// What happened in one snapshot, as it is told.
#[derive(Clone, Debug)]
struct Told(Arc<[cri::ContainerEventResponse]>);

/// How far the telling has come.
#[derive(Debug)]
struct Feed {
    follower: ChangeTracker,
    now: Arc<Snapshot>,
    told: broadcast::Sender<Told>,
}

impl Events {
    /// Of this store; each event is counted once.
    pub fn new(
        store: Store,
        containers: Containers,
        leaving: CancellationToken,
        rendered: Counter,
    ) -> Self {
        Self { store, containers, leaving, feed: Arc::default(), rendered }
    }

    /// Everything that happens from now on, until the listener leaves or dockbridge ends.
    ///
    /// # Errors
    /// What is true now is not known yet, and does not become so in time.
    pub(super) async fn listen(
        &self,
        listening: GaugeGuard,
    ) -> Result<BoxStream<cri::ContainerEventResponse>, Status> {
        self.store.synced(SYNC_TIMEOUT).await.map_err(failed)?;
        let told = self.join().await;
        Ok(events(told, listening).take_until(self.leaving.clone().cancelled_owned()).boxed())
    }

    /// Others are told first of what happened before now.
    async fn join(&self) -> broadcast::Receiver<Told> {
        let mut feed = self.feed.lock().await;
        if let Some(feed) = &mut *feed {
            self.advance(feed).await;
            return feed.told.subscribe();
        }
        let now = self.store.snapshot();
        let (teller, told) = broadcast::channel(KEPT);
        *feed =
            Some(Feed { follower: ChangeTracker::new(&now), now: Arc::clone(&now), told: teller });
        tokio::spawn(self.clone().tell(now));
        told
    }

    /// Tells until nobody listens any more.
    async fn tell(self, mut last: Arc<Snapshot>) {
        loop {
            let news = self.store.when(|now| (!Arc::ptr_eq(now, &last)).then_some(()));
            let more = tokio::select! {
                more = news => more.is_some(),
                () = self.leaving.cancelled() => false,
            };
            let mut feed = self.feed.lock().await;
            let heard = feed.as_ref().is_some_and(|feed| feed.told.receiver_count() > 0);
            match &mut *feed {
                Some(feed) if more && heard => {
                    self.advance(feed).await;
                    last = Arc::clone(&feed.now);
                }
                // Whoever listens still hears the end.
                _ => return *feed = None,
            }
        }
    }

    /// Tells what happened since the last snapshot that was told of.
    async fn advance(&self, feed: &mut Feed) {
        // The kubelet takes the time of an event for the age of what it says.
        let at = Nanos(clock::nanos());
        let now = self.store.snapshot();
        let changes = feed.follower.changes(&now);
        let shown = self.inspected(&now, &changes).await;
        let mut told = Vec::new();
        for change in changes {
            let pod = pod(&shown, &change.sandbox, &self.containers).await;
            told.push(event(&change.id, change.step, &pod, at));
            self.rendered.inc();
        }
        feed.now = now;
        if !told.is_empty() {
            // The last listener may have left meanwhile.
            let _ = feed.told.send(Told(told.into()));
        }
    }

    /// The kubelet takes an event for a status of the whole pod, so all its containers are inspected
    /// first, as for a status; where the engine does not answer, the word of its list has to do.
    async fn inspected(&self, now: &Arc<Snapshot>, changes: &[Change]) -> Arc<Snapshot> {
        let is_listed = |one: &Arc<ContainerRecord>| one.process.is_listed();
        let is_seen = |now: &Snapshot| {
            let mut pods = changes.iter().map(|change| now.containers_of(&change.sandbox.id));
            (!pods.any(|containers| containers.iter().any(is_listed))).then_some(())
        };
        if is_seen(now).is_some() {
            return Arc::clone(now);
        }
        self.store.wait(INSPECT_PATIENCE, is_seen).await;
        self.store.snapshot()
    }
}

/// The stream of one listener.
fn events(
    told: broadcast::Receiver<Told>,
    listening: GaugeGuard,
) -> impl stream::Stream<Item = Result<cri::ContainerEventResponse, Status>> + Send {
    let listener = Some((told, VecDeque::new(), listening));
    stream::unfold(listener, |listener| async {
        let (mut told, mut waiting, listening) = listener?;
        while waiting.is_empty() {
            match told.recv().await {
                Ok(Told(news)) => waiting.extend(news.iter().cloned()),
                Err(RecvError::Closed) => return None,
                Err(RecvError::Lagged(_)) => return Some((Err(too_slow()), None)),
            }
        }
        let event = waiting.pop_front()?;
        Some((Ok(event), Some((told, waiting, listening))))
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
    let all = now.containers_of(&sandbox.id).iter().map(|record| held(now, record, containers));
    Pod { sandbox, containers: join_all(all).await }
}

/// A container as `now` shows it, with the limits in force.
pub async fn held<'a>(
    now: &'a Snapshot,
    record: &'a ContainerRecord,
    containers: &Containers,
) -> Held<'a> {
    let image = now.image(record.document.image_id.as_str()).map(|image| &**image);
    Held { record, image, limits: containers.limits(record).await }
}

/// How long inspects may hold up what is told.
const INSPECT_PATIENCE: Duration = Duration::from_secs(10);
/// Snapshots with something to tell that wait for a listener. A burst of any size is in one.
const KEPT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metric::Gauge;

    fn told(names: &[&str]) -> Told {
        let event = |name: &&str| cri::ContainerEventResponse {
            container_id: (*name).to_owned(),
            ..Default::default()
        };
        Told(names.iter().map(event).collect())
    }

    #[tokio::test]
    async fn who_does_not_read_is_told_so_and_holds_up_nobody() {
        let (teller, deaf) = broadcast::channel(2);
        let listeners = Gauge::default();
        let mut reading = Box::pin(events(teller.subscribe(), listeners.inc_while_held()));
        let mut deaf = Box::pin(events(deaf, listeners.inc_while_held()));
        for round in ["a", "b", "c"] {
            teller.send(told(&[round, "x"])).unwrap();
            assert_eq!(reading.next().await.unwrap().unwrap().container_id, round);
            assert_eq!(reading.next().await.unwrap().unwrap().container_id, "x");
        }
        let end = deaf.next().await.unwrap().unwrap_err();
        assert_eq!(end.code(), tonic::Code::ResourceExhausted);
        assert!(deaf.next().await.is_none());
        assert_eq!(listeners.get(), 1);
        drop(teller);
        assert!(reading.next().await.is_none());
        assert_eq!(listeners.get(), 0);
    }
}

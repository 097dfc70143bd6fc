//! The store's connection to the engine. The task of [`EventStream`] opens the event stream, then follows the
//! events and lists containers and images. If the connection or the list of containers fails, the task connects again.
//!
//! The stream is opened before the lists, so that no change between the two is missed, and read during the
//! lists, because the engine drops events for slow readers.

use std::{convert::Infallible, time::Duration};

use tokio::{
    task::JoinSet,
    time::{self, Instant},
};
use tracing::{info, warn};

use super::{command::Signal, inspector::Inspector, state::Listing};
use crate::{
    concurrency::{backoff::Backoff, blocking::result_or_panic},
    engine::{error::EngineError, events::Events},
    error::chain,
    model::engine::EngineEvent,
};

#[derive(Debug)]
pub(super) struct EventStream {
    inspector: Inspector,
    containers_listed: bool,
    images_listed: bool,
    reconnect: Backoff,
}

enum EventStreamEnd {
    Disconnected(String),
    WriterGone,
}

impl EventStream {
    pub(super) fn new(inspector: &Inspector) -> Self {
        Self {
            inspector: inspector.clone(),
            containers_listed: false,
            images_listed: false,
            reconnect: Backoff::new(FIRST_RECONNECT, LONGEST_RECONNECT),
        }
    }

    /// Follows the engine until the task is aborted or the writer has ended.
    pub(super) async fn run(mut self) {
        loop {
            let Err(end) = self.connect().await;
            let EventStreamEnd::Disconnected(reason) = end else { return };
            if self.inspector.signals.send(Signal::Disconnected(reason)).await.is_err() {
                return;
            }
            time::sleep(self.reconnect.failed()).await;
        }
    }

    async fn connect(&mut self) -> Result<Infallible, EventStreamEnd> {
        let Inspector { engine: docker, hooks, settings, .. } = &self.inspector;
        let deadline = settings.connect_deadline;
        let api = within(deadline, "a ping", docker.negotiate()).await?;
        let engine = within(deadline, "/info", docker.info()).await?;
        hooks.engine(&engine).await;
        let events = within(deadline, "/events", docker.events()).await?;
        info!(version = %engine.version, %api, "connected to the docker engine");
        if let Some(store) = engine.other_store.as_ref().filter(|store| store.pods > 0) {
            let (found, advice) = (store.to_string(), store.way_back());
            warn!(
                found,
                advice,
                "docker does not list all pods; keeping networks, mounts and files of missing pods while any unlisted container runs"
            );
        }
        self.send(Signal::Connected(Box::new(engine))).await?;
        self.follow(events).await
    }

    /// Reads events, and lists containers and images now and at intervals.
    async fn follow(&mut self, mut events: Events) -> Result<Infallible, EventStreamEnd> {
        let mut lists = JoinSet::new();
        let mut due = Instant::now();
        let (mut not_before, mut soonest, mut is_missed) = (due, due, false);
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(EngineEvent::Unreadable { reason })) => {
                        warn!(reason, "cannot read an event of Docker; listing all containers and images");
                        // A list that is running may have begun before the event, so another list must follow.
                        (due, is_missed) = (due.min(soonest), !lists.is_empty());
                    }
                    Some(Ok(event)) => self.send(Signal::Event(event, events.at)).await?,
                    Some(Err(error)) => return Err(EventStreamEnd::Disconnected(chain(&error))),
                    None => return Err(EventStreamEnd::Disconnected("Docker closed the event stream".to_owned())),
                },
                () = time::sleep_until(due), if lists.is_empty() => {
                    self.send(Signal::Listing).await?;
                    lists.spawn(self.list());
                }
                () = self.inspector.relist.notified(), if lists.is_empty() => due = due.min(not_before),
                Some(listed) = lists.join_next() => {
                    let panicked = |_| EventStreamEnd::Disconnected("internal error: the task that lists containers and images panicked".to_owned());
                    let listing = result_or_panic(listed).await.map_err(panicked)??;
                    let has_images = listing.images.is_some();
                    let interval = match has_images {
                        true => self.inspector.settings.relist_interval,
                        false if self.images_listed => IMAGES_AGAIN,
                        false => FIRST_IMAGES,
                    };
                    self.images_listed |= has_images;
                    let now = Instant::now();
                    soonest = now + AFTER_UNREADABLE;
                    due = if std::mem::take(&mut is_missed) { soonest } else { now + interval };
                    not_before = now + self.inspector.settings.relist_min_interval;
                    self.reconnect.succeeded();
                    self.containers_listed = true;
                    self.send(Signal::Listed(listing)).await?;
                }
            }
        }
    }

    /// A slow list of images delays the first answers about pods by at most [`FIRST_IMAGES`].
    fn list(&self) -> impl Future<Output = Result<Listing, EventStreamEnd>> + use<> {
        let engine = self.inspector.engine.clone();
        let deadline = self.inspector.settings.list_deadline;
        let is_first = !self.containers_listed;
        let image_deadline = if is_first { deadline.min(FIRST_IMAGES) } else { deadline };
        let hooks = is_first.then(|| self.inspector.hooks.clone());
        async move {
            let (containers, images) = tokio::join!(
                within(deadline, "a request for the list of containers", engine.list_containers()),
                within(image_deadline, "a request for the list of images", engine.list_images()),
            );
            let images = images.inspect_err(|end| {
                if let EventStreamEnd::Disconnected(reason) = end {
                    warn!(error = reason, "cannot list images; keeping the last known images");
                }
            });
            let images = images.ok();
            let mut listing = Listing { containers: containers?, images, adopted: Vec::new() };
            if let Some(hooks) = hooks {
                listing.adopted = hooks.first_list(listing.sandboxes()).await;
            }
            Ok(listing)
        }
    }

    async fn send(&self, signal: Signal) -> Result<(), EventStreamEnd> {
        self.inspector.signals.send(signal).await.map_err(|_| EventStreamEnd::WriterGone)
    }
}

async fn within<T>(
    deadline: Duration,
    what: &str,
    call: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EventStreamEnd> {
    match time::timeout(deadline, call).await {
        Ok(answer) => answer.map_err(|error| EventStreamEnd::Disconnected(chain(&error))),
        Err(_) => Err(EventStreamEnd::Disconnected(format!(
            "Docker did not answer {what} within {deadline:?}"
        ))),
    }
}

const FIRST_RECONNECT: Duration = Duration::from_millis(100);
const LONGEST_RECONNECT: Duration = Duration::from_secs(2);
/// How long the first listing waits for images, and the pause after a failed list of images, if images were
/// never listed.
const FIRST_IMAGES: Duration = Duration::from_secs(2);
/// The shortest pause between the end of a list and the next list, if an unreadable event causes the next list.
const AFTER_UNREADABLE: Duration = Duration::from_secs(1);
/// The pause after a failed list of images, if images were listed before.
const IMAGES_AGAIN: Duration = Duration::from_secs(30);

//! The link to the engine: opens the event stream, then lists, then follows; for ever.
//!
//! The stream is open before the list is asked for, so nothing can fall between the two. While
//! the list is being made the stream is read all the same: the engine drops events for readers
//! that fall behind.

use std::{convert::Infallible, sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{self, Instant},
};
use tracing::{info, warn};

use super::{
    gate::Gate,
    inspect::Looker,
    ledger::Listing,
    look::{Target, Ticket},
    settings::StoreSettings,
};
use crate::{
    engine::{client::Engine, error::EngineError, events::Events},
    error::chain,
    model::{
        engine::{EngineEvent, EngineInfo},
        record::ContainerRecord,
        time::Nanos,
    },
};

/// What the link, and the looks, tell the writer.
#[derive(Debug)]
pub(super) enum Signal {
    /// The event stream is open.
    Linked(Box<EngineInfo>),
    /// All ids are about to be asked for.
    Listing,
    /// All ids.
    Listed(Listing),
    /// Something happened, at this time by the engine's clock.
    Happened(EngineEvent, Nanos),
    /// The stream ended, or could not be opened.
    Lost(String),
    /// A look takes long.
    Slowed(Target, Ticket),
    /// A workload as far as it may be shown while it waits at the gate.
    Glimpsed(Box<ContainerRecord>, Ticket),
}

/// Follows the engine, if the gate admits it, until the task is aborted or nobody listens.
pub(super) async fn follow(looker: Looker) {
    let Looker { engine, settings, signals, gate, relist, .. } = looker;
    let mut session = Session {
        engine,
        gate,
        settings,
        signals,
        relist,
        listed: false,
        imaged: false,
        pause: FIRST_PAUSE,
    };
    loop {
        let Err(end) = session.run().await;
        let End::Lost(reason) = end else { return };
        if session.signals.send(Signal::Lost(reason)).await.is_err() {
            return;
        }
        time::sleep(session.pause).await;
        session.pause = (session.pause * 2).min(LONGEST_PAUSE);
    }
}

struct Session {
    engine: Engine,
    gate: Gate,
    settings: StoreSettings,
    signals: mpsc::Sender<Signal>,
    /// Somebody needs a list.
    relist: Arc<Notify>,
    /// The first list is in.
    listed: bool,
    /// The first list of images, too.
    imaged: bool,
    pause: Duration,
}

/// Why a session is over.
enum End {
    /// The engine went away.
    Lost(String),
    /// The writer did.
    Unheard,
}

impl Session {
    async fn run(&mut self) -> Result<Infallible, End> {
        let patience = self.settings.connect_deadline;
        let api = within(patience, "a ping", self.engine.negotiate()).await?;
        let engine = within(patience, "what it is", self.engine.info()).await?;
        self.gate.admit(&engine).await;
        let events = within(patience, "its events", self.engine.events()).await?;
        info!(version = %engine.version, %api, "following the docker engine");
        self.tell(Signal::Linked(Box::new(engine))).await?;
        self.attend(events).await
    }

    /// Reads events, and lists now and from time to time.
    async fn attend(&mut self, mut events: Events) -> Result<Infallible, End> {
        let mut lists = JoinSet::new();
        let mut due = Instant::now();
        let mut rested = due;
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => self.tell(Signal::Happened(event, events.at())).await?,
                    Some(Err(error)) => return Err(End::Lost(chain(&error))),
                    None => return Err(End::Lost("it closed its event stream".to_owned())),
                },
                () = time::sleep_until(due), if lists.is_empty() => {
                    self.tell(Signal::Listing).await?;
                    let listing = list(self.engine.clone(), &self.settings, self.listed);
                    let adopting = (!self.listed).then(|| self.gate.clone());
                    lists.spawn(async move {
                        let mut listing = listing.await?;
                        if let Some(gate) = adopting {
                            listing.adopted = gate.adopt(listing.sandboxes()).await;
                        }
                        Ok(listing)
                    });
                }
                () = self.relist.notified(), if lists.is_empty() => due = due.min(rested),
                Some(listed) = lists.join_next() => {
                    let lost = |_| End::Lost("listing ended without an answer".to_owned());
                    let listing = listed.map_err(lost)??;
                    let whole = listing.images.is_some();
                    let again = match whole {
                        true => self.settings.relist_every,
                        false if self.imaged => AGAIN,
                        false => SOON,
                    };
                    self.imaged |= whole;
                    (due, rested) =
                        (Instant::now() + again, Instant::now() + self.settings.relist_rest);
                    (self.pause, self.listed) = (FIRST_PAUSE, true);
                    self.tell(Signal::Listed(listing)).await?;
                }
            }
        }
    }

    async fn tell(&self, signal: Signal) -> Result<(), End> {
        self.signals.send(signal).await.map_err(|_| End::Unheard)
    }
}

/// Images must not hold up the first answer about pods.
fn list(
    engine: Engine,
    settings: &StoreSettings,
    listed: bool,
) -> impl Future<Output = Result<Listing, End>> + use<> {
    let patience = settings.list_deadline;
    let of_images = if listed { patience } else { patience.min(SOON) };
    lists(engine, patience, of_images)
}

async fn lists(engine: Engine, patience: Duration, of_images: Duration) -> Result<Listing, End> {
    let (containers, images) = tokio::join!(
        within(patience, "its containers", engine.list_containers()),
        within(of_images, "its images", engine.list_images()),
    );
    let images = images.inspect_err(|end| {
        if let End::Lost(reason) = end {
            warn!(error = reason, "cannot list images; keeping those known");
        }
    });
    Ok(Listing { containers: containers?, images: images.ok(), adopted: Vec::new() })
}

async fn within<T>(
    patience: Duration,
    what: &str,
    call: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, End> {
    match time::timeout(patience, call).await {
        Ok(answer) => answer.map_err(|error| End::Lost(chain(&error))),
        Err(_) => Err(End::Lost(format!("it did not answer for {what} within {patience:?}"))),
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Before images are listed again that never were.
const SOON: Duration = Duration::from_secs(2);
/// When images could not be listed.
const AGAIN: Duration = Duration::from_secs(30);

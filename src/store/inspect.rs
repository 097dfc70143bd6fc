//! One look at one object, as a task of its own: an inspect with a deadline, then the gate.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, mpsc},
    time,
};

use super::{
    error::StoreError,
    facts::Sight,
    gate::Gate,
    inquest::{self, Inquest, Verdict},
    link::Signal,
    look::{Target, Ticket},
    settings::StoreSettings,
};
use crate::{
    engine::{client::Engine, error::EngineError},
    host::clock,
    model::{
        record::{ContainerRecord, Observed, Process},
        time::Nanos,
    },
};

/// What a look works with.
#[derive(Clone, Debug)]
pub(super) struct Looker {
    pub(super) engine: Engine,
    pub(super) gate: Gate,
    pub(super) inquest: Inquest,
    pub(super) settings: StoreSettings,
    pub(super) signals: mpsc::Sender<Signal>,
    /// Asks the link for a list.
    pub(super) relist: Arc<Notify>,
}

/// Why a look saw nothing.
#[derive(Debug)]
pub(super) enum LookFailure {
    /// The engine, or the way to it, failed.
    Engine(EngineError),
    /// No answer in this time.
    Silent(Duration),
    /// Our own task broke.
    Lost,
}

impl LookFailure {
    /// In the words of those who wait.
    pub(super) fn about(self, name: &str) -> StoreError {
        let name = name.to_owned();
        match self {
            Self::Engine(source) => StoreError::Look { name, source },
            Self::Silent(waited) => StoreError::Silent { name, waited },
            Self::Lost => StoreError::Lost { name },
        }
    }
}

impl Looker {
    /// Inspects `target` and passes the gate; says so when that takes long, so that others need
    /// not wait for it.
    pub(super) async fn look(self, target: Target, at: Ticket) -> Result<Sight, LookFailure> {
        let mut look = std::pin::pin!(self.inspect_and_pass(&target, at));
        if let Ok(seen) = time::timeout(self.settings.slow_after, &mut look).await {
            return seen;
        }
        // A full queue means a busy writer: then this look goes on counting as quick.
        let _ = self.signals.try_send(Signal::Slowed(target.clone(), at));
        look.await
    }

    /// The deadline is the engine's; who waits at the gate has one of his own.
    async fn inspect_and_pass(&self, target: &Target, at: Ticket) -> Result<Sight, LookFailure> {
        let seen = self.explained(target, self.inspect(target).await?).await;
        match (&seen, target) {
            (Sight::Container(observed), _) => {
                if let Observed::Container(record) = &**observed {
                    self.pass(record, at).await;
                }
            }
            (Sight::Gone, Target::Container(id)) => {
                self.gate.tell_gone(id);
                self.inquest.forget(id);
                self.inquest.save().await;
            }
            _ => {}
        }
        Ok(seen)
    }
}

impl Looker {
    async fn inspect(&self, target: &Target) -> Result<Sight, LookFailure> {
        let deadline = self.settings.inspect_deadline;
        let silent = |_| LookFailure::Silent(deadline);
        time::timeout(deadline, inspect(&self.engine, target)).await.map_err(silent)?
    }

    /// What was seen, with the cause of its end: that must not change once it has been shown.
    async fn explained(&self, target: &Target, seen: Sight) -> Sight {
        let Sight::Container(observed) = seen else { return seen };
        match *observed {
            Observed::Container(record) => self.judged(target, record).await,
            Observed::Sandbox(record) => {
                self.inquest.meet(&record).await;
                sight(Observed::Sandbox(record))
            }
            Observed::Foreign(image) => sight(Observed::Foreign(image)),
        }
    }

    /// The cause of an end is found out once. The engine may tell of it a little later: it is given
    /// the time, if the end is fresh.
    async fn judged(&self, target: &Target, record: ContainerRecord) -> Sight {
        self.inquest.attend(&record).await;
        if let Some(verdict) = self.inquest.hold(&record).await {
            return sight(Observed::Container(inquest::by(verdict, record)));
        }
        if inquest::is_doubtful(&record) && is_fresh(&record) {
            return self.explained_later(target, record).await;
        }
        self.inquest.close(&record, Verdict::AsTold).await;
        sight(Observed::Container(record))
    }

    /// With the engine's late word, by its inspection or by its event.
    async fn explained_later(&self, target: &Target, record: ContainerRecord) -> Sight {
        let mut verdict = Verdict::AsTold;
        for rest in AGAIN_AFTER {
            time::sleep(rest).await;
            match self.inspect(target).await {
                Ok(Sight::Gone) => return Sight::Gone,
                Ok(seen) if !is_doubtful(&seen) => return seen,
                _ if self.inquest.is_sentenced(&record) => break,
                _ if self.inquest.is_short(&record) => {
                    verdict = Verdict::NoMemory;
                    break;
                }
                _ => {}
            }
        }
        self.inquest.close(&record, verdict).await;
        sight(Observed::Container(inquest::by(verdict, record)))
    }

    /// Waits at the gate. What stays there and was never shown must not seem to be missing for
    /// so long: a kubelet would make it again.
    async fn pass(&self, record: &ContainerRecord, at: Ticket) {
        let mut passing = std::pin::pin!(self.gate.pass(record));
        if time::timeout(GLIMPSE_AFTER, &mut passing).await.is_err() {
            // The writer is there as long as this task is.
            let _ = self.signals.send(Signal::Glimpsed(Box::new(glimpse(record)), at)).await;
            passing.await;
        }
    }
}

fn sight(observed: Observed) -> Sight {
    Sight::Container(Box::new(observed))
}

/// Whether it leaves open why its process was killed.
fn is_doubtful(seen: &Sight) -> bool {
    let Sight::Container(observed) = seen else { return false };
    matches!(&**observed, Observed::Container(record) if inquest::is_doubtful(record))
}

/// Whether the engine may still learn why it ended.
fn is_fresh(record: &ContainerRecord) -> bool {
    let Process::Exited { finished_at: Nanos(at), .. } = record.process else { return false };
    let age = clock::nanos().saturating_sub(at);
    Duration::from_nanos(u64::try_from(age).unwrap_or_default()) < FRESH
}

/// What may be shown before the gate has opened: everything but the end.
fn glimpse(record: &ContainerRecord) -> ContainerRecord {
    let mut shown = record.clone();
    if let Process::Exited { started_at, .. } = shown.process {
        shown.process = Process::Running { pid: 0, started_at };
    }
    shown
}

async fn inspect(engine: &Engine, target: &Target) -> Result<Sight, LookFailure> {
    let seen = match target {
        Target::Container(id) => {
            engine.inspect_container(id).await.map(|c| Sight::Container(Box::new(c)))
        }
        Target::Image(name) => engine.inspect_image(name).await.map(|i| Sight::Image(Box::new(i))),
    };
    match seen {
        Err(error) if error.is_not_found() => Ok(Sight::Gone),
        other => other.map_err(LookFailure::Engine),
    }
}

/// Longer than a log that is complete needs to say so, shorter than the first reader waits.
const GLIMPSE_AFTER: Duration = Duration::from_millis(100);
/// Before the engine is asked again whether memory was short: its word of that and its word of the
/// end come by two ways. On an idle machine it is late by less than the first of these, with both
/// CPUs busy by more; where it never knows, nobody should wait.
const AGAIN_AFTER: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(150),
    Duration::from_millis(200),
];
/// An engine that has not learnt by then why a container ended never will.
const FRESH: Duration = Duration::from_secs(2);

//! One look at one object, as a task of its own: an inspect with a deadline, then the gate.

use std::time::Duration;

use tokio::{sync::mpsc, time};

use super::{
    error::StoreError, facts::Sight, gate::Gate, link::Signal, look::Target,
    settings::StoreSettings,
};
use crate::{
    engine::{client::Engine, error::EngineError},
    model::record::Observed,
};

/// What a look works with.
#[derive(Clone, Debug)]
pub(super) struct Looker {
    pub(super) engine: Engine,
    pub(super) gate: Gate,
    pub(super) settings: StoreSettings,
    pub(super) signals: mpsc::Sender<Signal>,
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
    /// Inspects `target` and passes the gate; sends `slow` when that takes long, so that others
    /// need not wait for it.
    pub(super) async fn look(self, target: Target, slow: Signal) -> Result<Sight, LookFailure> {
        let mut look = std::pin::pin!(self.inspect_and_pass(&target));
        if let Ok(seen) = time::timeout(self.settings.slow_after, &mut look).await {
            return seen;
        }
        // A full queue means a busy writer: then this look goes on counting as quick.
        let _ = self.signals.try_send(slow);
        look.await
    }

    /// The deadline is the engine's; who waits at the gate has one of his own.
    async fn inspect_and_pass(&self, target: &Target) -> Result<Sight, LookFailure> {
        let deadline = self.settings.inspect_deadline;
        let silent = |_| LookFailure::Silent(deadline);
        let seen =
            time::timeout(deadline, inspect(&self.engine, target)).await.map_err(silent)??;
        match (&seen, target) {
            (Sight::Container(observed), _) => {
                if let Observed::Container(record) = &**observed {
                    self.gate.pass(record).await;
                }
            }
            (Sight::Gone, Target::Container(id)) => self.gate.tell_gone(id),
            _ => {}
        }
        Ok(seen)
    }
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

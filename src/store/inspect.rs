//! One inspect of one object, with a deadline, as a task of its own.

use std::time::Duration;

use tokio::{sync::mpsc, time};

use super::{error::StoreError, facts::Sight, link::Signal, look::Target, settings::StoreSettings};
use crate::engine::{client::Engine, error::EngineError};

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

/// Inspects `target`; sends `slow` when that takes long, so that others need not wait for it.
pub(super) async fn look(
    engine: Engine,
    target: Target,
    slow: Signal,
    signals: mpsc::Sender<Signal>,
    settings: StoreSettings,
) -> Result<Sight, LookFailure> {
    let mut inspect = std::pin::pin!(inspect(&engine, &target));
    if let Ok(seen) = time::timeout(settings.slow_after, &mut inspect).await {
        return seen;
    }
    // A full queue means a busy writer: then this look goes on counting as quick.
    let _ = signals.try_send(slow);
    let left = settings.inspect_deadline.saturating_sub(settings.slow_after);
    let silent = |_| LookFailure::Silent(settings.inspect_deadline);
    time::timeout(left, inspect).await.map_err(silent)?
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

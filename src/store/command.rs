//! What callers of the store ask of its writer task.

use tokio::sync::oneshot;

use super::{engine_call::EngineCall, error::StoreError, inspect_queue::Target};
use crate::{checkpoint::record::SandboxCheckpoint, model::id::SandboxId};

/// One request to the writer. The reply comes after the snapshot that shows the effect.
#[derive(Debug)]
pub(super) enum Command {
    /// Inspect an object now; perhaps because the engine has answered a call.
    Refresh {
        target: Target,
        answered: Option<EngineCall>,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Join this checkpoint to its sandbox.
    PutCheckpoint { checkpoint: Box<SandboxCheckpoint>, reply: oneshot::Sender<()> },
    /// The sandbox has no checkpoint any more.
    ForgetCheckpoint { id: SandboxId, reply: oneshot::Sender<()> },
    /// Reply at once: a health check.
    Ping { reply: oneshot::Sender<()> },
}

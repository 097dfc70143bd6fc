//! Requests of the store's callers to its writer task.

use tokio::sync::oneshot;

use super::{engine_call::EngineCall, error::StoreError, inspect_queue::Target};
use crate::{checkpoint::record::SandboxCheckpoint, model::id::SandboxId};

/// One request to the writer. The reply is sent after the snapshot that shows the effect.
#[derive(Debug)]
pub(super) enum Command {
    /// Inspects an object now, for example after the engine has answered a call.
    Refresh {
        target: Target,
        answered: Option<EngineCall>,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Joins this checkpoint with its sandbox.
    PutCheckpoint { checkpoint: Box<SandboxCheckpoint>, reply: oneshot::Sender<()> },
    /// The sandbox no longer has a checkpoint.
    ForgetCheckpoint { id: SandboxId, reply: oneshot::Sender<()> },
    /// Replies at once, for the health check.
    Ping { reply: oneshot::Sender<()> },
}

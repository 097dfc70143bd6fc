//! What the verbs ask of the writer.

use tokio::sync::oneshot;

use super::{error::StoreError, look::Target};
use crate::{checkpoint::record::SandboxCheckpoint, model::id::SandboxId};

/// One request to the writer. Replies come after the snapshot that shows the effect.
#[derive(Debug)]
pub(super) enum Command {
    /// Look at an object now.
    Refresh { target: Target, reply: oneshot::Sender<Result<(), StoreError>> },
    /// Join this checkpoint to its sandbox.
    Put { checkpoint: Box<SandboxCheckpoint>, reply: oneshot::Sender<()> },
    /// Say that you are there.
    Answer { reply: oneshot::Sender<()> },
    /// The sandbox has no checkpoint any more.
    Forget { id: SandboxId, reply: oneshot::Sender<()> },
}

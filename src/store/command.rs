//! Messages to the writer task: requests of the store's callers, and what the event stream and running
//! inspects report.

use tokio::sync::oneshot;

use super::{
    engine_call::EngineCall,
    inspect_queue::{Generation, Target},
    state::Listing,
};
use crate::{
    checkpoint::record::SandboxCheckpoint,
    error::Failure,
    model::{
        engine::{EngineEvent, EngineInfo},
        id::SandboxId,
        record::ContainerRecord,
        time::Nanos,
    },
};

/// One request to the writer. The reply is sent after the snapshot that shows the effect.
#[derive(Debug)]
pub(super) enum Command {
    /// Inspects an object now, for example after the engine has answered a call.
    Refresh {
        target: Target,
        answered: Option<EngineCall>,
        reply: oneshot::Sender<Result<(), Failure>>,
    },
    /// Joins this checkpoint with its sandbox, which no longer has one if it is none.
    SetCheckpoint {
        id: SandboxId,
        checkpoint: Option<Box<SandboxCheckpoint>>,
        reply: oneshot::Sender<()>,
    },
    /// Replies at once, for the health check.
    Ping { reply: oneshot::Sender<()> },
}

/// One message to the writer.
#[derive(Debug)]
pub(super) enum Signal {
    Connected(Box<EngineInfo>),
    /// A list of everything begins.
    Listing,
    Listed(Listing),
    /// An event, with its time on the engine's clock.
    Event(EngineEvent, Nanos),
    /// The event stream ended, or could not be opened.
    Disconnected(String),
    Slow(Target, Generation),
    /// A container with the parts that may be shown while its hook runs.
    Provisional(Box<ContainerRecord>, Generation),
}

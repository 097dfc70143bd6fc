//! Messages to the writer task: from callers of the store, the event stream and running inspects.

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
        id::{ImageId, SandboxId},
        record::ContainerRecord,
        time::Nanos,
    },
};

/// The writer replies to a ping at once, otherwise when a snapshot shows the effect or the inspect has failed.
#[derive(Debug)]
pub(super) enum Command {
    Refresh {
        target: Target,
        answered: Option<EngineCall>,
        reply: oneshot::Sender<Result<(), Failure>>,
    },
    /// `None` removes the content of the pod's checkpoint file from the store.
    SetCheckpoint {
        id: SandboxId,
        checkpoint: Option<Box<SandboxCheckpoint>>,
        reply: oneshot::Sender<()>,
    },
    /// Docker has the image but does not list it.
    ImageUnlisted {
        id: ImageId,
        reply: oneshot::Sender<()>,
    },
    Ping {
        reply: oneshot::Sender<()>,
    },
}

/// A message to the writer from the event stream or a running inspect.
#[derive(Debug)]
pub(super) enum Signal {
    Connected(Box<EngineInfo>),
    /// dockbridge begins to list all containers and images.
    Listing,
    Listed(Listing),
    /// An event of the engine, with its time on the engine's clock.
    Event(EngineEvent, Nanos),
    /// The connection to the engine could not be made or has ended, or the list of containers failed.
    Disconnected(String),
    Slow(Target, Generation),
    Provisional(Box<ContainerRecord>, Generation),
}

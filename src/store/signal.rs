//! Messages to the writer from the event stream and from running inspects.

use super::{
    inspect_queue::{Generation, Target},
    state::Listing,
};
use crate::model::{
    engine::{EngineEvent, EngineInfo},
    record::ContainerRecord,
    time::Nanos,
};

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

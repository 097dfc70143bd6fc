//! The engine's event stream: what changed, as it changes.

use hyper::Method;

use super::{
    address,
    client::Engine,
    error::{Call, EngineError, Subject},
    exchange::Exchange,
    stream::Messages,
};
use crate::{model::engine::EngineEvent, translate::observe, wire::docker};

/// An open event stream. It may be silent for hours, so waiting on it has no deadline; an engine
/// that dies ends it.
#[derive(Debug)]
pub struct Events {
    engine: Engine,
    messages: Messages,
}

impl Engine {
    /// Opens the event stream. What happens from the return on is in it.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub async fn events(&self) -> Result<Events, EngineError> {
        let call = Call { verb: "follow events", subject: Subject::Engine };
        // The engine drops the rest: probes alone make three exec events each.
        let filters = serde_json::json!({ "type": KINDS, "event": ACTIONS }).to_string();
        let target = address::with_query("/events", &[("filters", &filters)]);
        let limit = self.patience().stream;
        let follow = Exchange::new(call.clone(), Method::GET, Some(target), limit)?;
        let body = self.begin(&follow).await?;
        Ok(Events { engine: self.clone(), messages: Messages::new(self.clone(), call, body) })
    }
}

impl Events {
    /// The next event; none when the engine ended the stream. Either way of ending means: open
    /// another one, then look at everything again.
    ///
    /// Safe to drop before it returns: no event is lost.
    ///
    /// # Errors
    /// [`EngineError::Broken`] when the connection broke.
    pub async fn next(&mut self) -> Option<Result<EngineEvent, EngineError>> {
        loop {
            match self.messages.next::<docker::Event>().await {
                Some(Ok(message)) => {
                    if let Some(event) = observe::event::observe(&message) {
                        return Some(Ok(event));
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    // An engine that hangs up is being stopped, perhaps to be replaced.
                    self.engine.negotiated().doubt();
                    return None;
                }
            }
        }
    }
}

const KINDS: [&str; 3] = ["container", "image", "daemon"];

/// Everything that changes a record, and nothing else: a kill or stop shows in the die. First of
/// containers, then of images, then of the daemon.
const ACTIONS: [&str; 16] = [
    "create", "start", "die", "oom", "pause", "unpause", "rename", "update", "destroy", "pull",
    "load", "import", "tag", "untag", "delete", "reload",
];

//! The engine's event stream: what changed, as it changes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::Method;

use super::{
    address,
    client::Engine,
    error::{EngineError, Subject},
    stream::Messages,
};
use crate::{
    model::{engine::EngineEvent, time::Nanos},
    translate::observe,
    wire::docker,
};

/// An open event stream. It may be silent for hours, so waiting on it has no deadline; an engine
/// that dies ends it.
#[derive(Debug)]
pub struct Events {
    engine: Engine,
    messages: Messages,
    at: Nanos,
}

impl Engine {
    /// Opens the event stream. What happens from the call on is in it, and a little of what
    /// happened before.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub async fn events(&self) -> Result<Events, EngineError> {
        // The engine filters out all others: each probe makes three exec events.
        let filters = serde_json::json!({ "type": KINDS, "event": ACTIONS }).to_string();
        let query = [("since", &*since()), ("filters", &*filters)];
        let target = address::with_query("/events", &query);
        let mut follow = self.request(Method::GET, "follow events", Subject::Engine, &target)?;
        follow.timeout = self.timeouts().stream;
        let body = self.begin(&follow).await?;
        let messages = Messages::new(self.clone(), follow.call, body);
        Ok(Events { engine: self.clone(), messages, at: Nanos::UNSET })
    }
}

impl Events {
    /// When the last event happened, by the engine's clock; unset before the first.
    pub const fn at(&self) -> Nanos {
        self.at
    }

    /// The next event; none when the engine ended the stream. After an error or an end the caller opens
    /// another stream and lists everything again.
    ///
    /// Safe to drop before it returns: no event is lost.
    ///
    /// # Errors
    /// [`EngineError::Broken`] when the connection broke.
    pub async fn next(&mut self) -> Option<Result<EngineEvent, EngineError>> {
        loop {
            match self.messages.next_of_any_form::<docker::Event>().await {
                Some(Ok(Ok(message))) => {
                    if let Some(event) = observe::event::observe(&message) {
                        self.at = Nanos(message.time_nano);
                        return Some(Ok(event));
                    }
                }
                Some(Ok(Err(reason))) => return Some(Ok(EngineEvent::Unreadable { reason })),
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    // An engine that hangs up is being stopped, perhaps to be replaced.
                    self.engine.invalidate_version();
                    return None;
                }
            }
        }
    }
}

/// The engine begins its answer before it begins to listen to itself: what happens between would
/// be lost if it were not asked for what it remembers.
fn since() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = now.saturating_sub(OVERLAP);
    format!("{}.{:09}", since.as_secs(), since.subsec_nanos())
}

const KINDS: [&str; 3] = ["container", "image", "daemon"];

/// Everything that changes a record, and kills, which say why a container ended. First of containers,
/// then of images, then of the daemon.
const ACTIONS: [&str; 17] = [
    "create", "start", "kill", "die", "oom", "pause", "unpause", "rename", "update", "destroy",
    "pull", "load", "import", "tag", "untag", "delete", "reload",
];

/// How far before the call the stream begins: more than two clocks of one host differ.
const OVERLAP: Duration = Duration::from_secs(1);

//! The engine's event stream.

use std::time::Duration;

use hyper::Method;
use jiff::Timestamp;

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

/// An open event stream. It may be silent for hours, so reading from it has no deadline. It ends if the
/// engine ends.
#[derive(Debug)]
pub struct Events {
    engine: Engine,
    messages: Messages,
    /// The time of the last event on the engine's clock. Unset before the first one.
    pub at: Nanos,
}

impl Engine {
    /// Opens the event stream. It has all events from the call on, and a few earlier ones.
    pub async fn events(&self) -> Result<Events, EngineError> {
        // The engine filters out all others, because each probe makes three exec events.
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
    /// The next event. None if the engine ended the stream. After an error or the end, the caller opens a
    /// new stream and lists everything again. Fails with `Broken` if the connection broke.
    ///
    /// Safe to drop before it returns: no event is lost.
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
                    // The engine closed the stream because it is being stopped, perhaps to be replaced.
                    self.engine.invalidate_version();
                    return None;
                }
            }
        }
    }
}

/// The engine starts its answer before it subscribes to its own events. Events in between would be lost if
/// past events were not requested.
fn since() -> String {
    seconds(Timestamp::now() - OVERLAP).unwrap_or_default()
}

/// The engine's format of a time.
fn seconds(time: Timestamp) -> Option<String> {
    let nanos = u64::try_from(time.as_nanosecond()).ok()?;
    Some(format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000))
}

const KINDS: [&str; 3] = ["container", "image", "daemon"];

/// Everything that changes a record, and kills, which explain why a container ended. First those of
/// containers, then of images, then of the daemon.
const ACTIONS: [&str; 17] = [
    "create", "start", "kill", "die", "oom", "pause", "unpause", "rename", "update", "destroy",
    "pull", "load", "import", "tag", "untag", "delete", "reload",
];

/// How long before the call the stream begins. Clock readings of two programs can differ a little.
const OVERLAP: Duration = Duration::from_secs(1);

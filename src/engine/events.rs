//! The engine's event stream.

use std::time::Duration;

use hyper::Method;
use jiff::Timestamp;

use super::{
    api_path,
    client::Engine,
    error::{EngineError, Subject},
    stream::Messages,
};
use crate::{
    model::{engine::EngineEvent, time::Nanos},
    translate::observe,
    wire::docker,
};

/// An open event stream, which may be silent for hours and ends when the engine ends.
#[derive(Debug)]
pub struct Events {
    engine: Engine,
    messages: Messages,
    /// The time, by the engine's clock, of the last readable event that `next` returned. Unset before the first one.
    pub at: Nanos,
}

impl Engine {
    /// Opens the stream of the events in [`ACTIONS`] of objects in [`KINDS`], starting [`OVERLAP`] before the call.
    pub async fn events(&self) -> Result<Events, EngineError> {
        // The filter keeps exec events out, because each exec probe causes three of them.
        let filters = serde_json::json!({ "type": KINDS, "event": ACTIONS }).to_string();
        // The engine answers before it subscribes to its own events. Without `since`, events between the answer and
        // the subscription would be lost.
        let since = seconds(Timestamp::now() - OVERLAP).unwrap_or_default();
        let query = [("since", &*since), ("filters", &*filters)];
        let target = api_path::with_query("/events", &query);
        let mut follow = self.request(Method::GET, "follow events", Subject::Engine, &target)?;
        follow.timeout = self.timeouts().stream;
        let body = self.begin(&follow).await?;
        let messages = Messages::new(self.clone(), follow.call, body);
        Ok(Events { engine: self.clone(), messages, at: Nanos::UNSET })
    }
}

impl Events {
    /// The next event that the store needs. None if the engine has closed the stream. After an error or None, the
    /// caller opens a new stream and lists all objects again. Fails with `Broken` if the connection broke.
    ///
    /// Dropping the returned future loses no event.
    pub async fn next(&mut self) -> Option<Result<EngineEvent, EngineError>> {
        loop {
            match self.messages.next_or_unreadable::<docker::Event>().await {
                Some(Ok(Ok(message))) => {
                    if let Some(event) = observe::event::observe(&message) {
                        self.at = Nanos(message.time_nano);
                        return Some(Ok(event));
                    }
                }
                Some(Ok(Err(reason))) => return Some(Ok(EngineEvent::Unreadable { reason })),
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    // The engine closed the stream, probably because it is being stopped, perhaps to be replaced.
                    self.engine.invalidate_version();
                    return None;
                }
            }
        }
    }
}

/// A time in the format of the Engine API: seconds with nine decimals.
fn seconds(time: Timestamp) -> Option<String> {
    let nanos = u64::try_from(time.as_nanosecond()).ok()?;
    Some(format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000))
}

const KINDS: [&str; 3] = ["container", "image", "daemon"];

/// The events to which the store reacts. `kill` and `oom` explain why a container ended.
const ACTIONS: [&str; 17] = [
    "create", "start", "kill", "die", "oom", "pause", "unpause", "rename", "update", "destroy",
    "pull", "load", "import", "tag", "untag", "delete", "reload",
];

const OVERLAP: Duration = Duration::from_secs(1);

//! Messages of an endless answer: a sequence of JSON objects, split at any byte.
//!
//! The engine ends each object with a line break, but proxies and old engines may join them.

use hyper::body::Incoming;
use serde::de::DeserializeOwned;

use super::{
    client::Engine,
    error::{Call, EngineError},
    json_cutter::Form,
    values::Values,
};
use crate::wire::docker;

/// The messages of one answer. Dropping it closes the connection, which tells the engine to stop.
#[derive(Debug)]
pub(super) struct Messages {
    engine: Engine,
    values: Values,
}

impl Messages {
    pub(super) const fn new(engine: Engine, call: Call, body: Incoming) -> Self {
        Self { engine, values: Values::new(call, body, Form::Messages) }
    }

    /// The next message. None at the regular end. An unreadable message is an error, because it may be the
    /// one that says why the call failed. Safe to drop and call again.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Option<Result<T, EngineError>> {
        let message = self.next_of_any_form().await?;
        Some(message.and_then(|message| message.map_err(|reason| self.values.call.garbled(reason))))
    }

    /// The next message, or the reason why it cannot be read. None at the regular end. Safe to drop and
    /// call again.
    pub(super) async fn next_of_any_form<T: DeserializeOwned>(
        &mut self,
    ) -> Option<Result<Result<T, String>, EngineError>> {
        Some(match self.values.next().await? {
            Ok(cut) => Ok(cut.value),
            Err(error) => {
                // The next call may reach another engine.
                self.engine.invalidate_version();
                Err(error)
            }
        })
    }
}

/// The failure in a message of a pull or load, if there is one.
pub(super) fn failure(message: &docker::Progress) -> Option<&str> {
    let stated = [message.error_detail.message.as_str(), message.error.as_str()];
    stated.into_iter().find(|text| !text.is_empty())
}

//! Messages of an endless answer: JSON objects, one after the other, cut anywhere by the
//! transport.
//!
//! The engine ends each with a line break, but proxies and old engines join them.

use std::sync::Arc;

use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tracing::debug;

use super::{
    client::{self, Engine},
    error::{Call, EngineError},
    json_cutter::Form,
    values::Values,
};
use crate::wire::docker;

/// The messages of one answer. Dropping it ends the call: the connection is closed, which the
/// engine takes as the request to stop.
#[derive(Debug)]
pub(super) struct Messages {
    engine: Engine,
    call: Call,
    values: Values,
}

impl Messages {
    pub(super) const fn new(engine: Engine, call: Call, body: Incoming) -> Self {
        Self { engine, call, values: Values::new(body, Form::Messages) }
    }

    /// The next message that can be read; none at the orderly end. Safe to drop and call again.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Option<Result<T, EngineError>> {
        loop {
            match self.next_of_any_form().await? {
                Ok(Ok(message)) => return Some(Ok(message)),
                Ok(Err(reason)) => debug!(reason, "skipped an unreadable message from Docker"),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// The next message, or why it cannot be read; none at the orderly end. Safe to drop and call
    /// again.
    pub(super) async fn next_of_any_form<T: DeserializeOwned>(
        &mut self,
    ) -> Option<Result<Result<T, String>, EngineError>> {
        Some(match self.values.next().await? {
            Ok(cut) => Ok(cut.value),
            Err(error) => {
                // The next call may reach another engine.
                self.engine.invalidate_version();
                Err(client::broken(&self.call, Arc::new(error)))
            }
        })
    }
}

/// The failure a message of a pull or load reports, if it does.
pub(super) fn failure(message: &docker::Progress) -> Option<&str> {
    let stated = [message.error_detail.message.as_str(), message.error.as_str()];
    stated.into_iter().find(|text| !text.is_empty())
}

//! The JSON values of one answer, read as they arrive.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

use super::{
    error::{Call, EngineError},
    json_cutter::{Cut, Form, JsonCutter},
};

/// The values of an answer. Dropping it before the end closes the connection.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) call: Call,
    /// None after the end or an error.
    body: Option<Incoming>,
    cutter: JsonCutter,
    /// Bytes after the last value.
    pending: Bytes,
}

impl Values {
    pub(super) const fn new(call: Call, body: Incoming, form: Form) -> Self {
        Self { call, body: Some(body), cutter: JsonCutter::new(form), pending: Bytes::new() }
    }

    /// The next value. None at the regular end. Safe to drop and call again.
    pub(super) async fn next<T: DeserializeOwned>(
        &mut self,
    ) -> Option<Result<Cut<T>, EngineError>> {
        loop {
            if let Some(cut) = self.cutter.next(&mut self.pending) {
                return Some(Ok(cut));
            }
            match self.body.as_mut()?.frame().await {
                Some(Ok(frame)) => self.pending = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    self.body = None;
                    return Some(Err(self.call.broken(error)));
                }
                None => self.body = None,
            }
        }
    }

    /// Whether the answer was a list that was read to its end.
    pub(super) fn is_whole_list(&self) -> bool {
        self.cutter.is_whole_list()
    }
}

//! Reads an answer that arrives as messages: one JSON object in each line. A frame of the HTTP body
//! may end in the middle of a message.
//!
//! Docker 20.10 to 29 sends each message of a pull, a load or the event stream together with its line break.

use std::mem;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use memchr::memchr;
use serde::de::DeserializeOwned;

use super::{
    client::{Engine, object},
    error::{Call, EngineError},
};
use crate::wire::docker;

/// The messages of one answer. Dropping this value before the end of the answer closes the connection, which
/// tells the engine to stop.
#[derive(Debug)]
pub(super) struct Messages {
    engine: Engine,
    call: Call,
    /// None after the end of the answer, or after the connection broke.
    body: Option<Incoming>,
    lines: Lines,
    /// Received bytes that `lines` has not taken yet.
    pending: Bytes,
}

impl Messages {
    pub(super) fn new(engine: Engine, call: Call, body: Incoming) -> Self {
        Self { engine, call, body: Some(body), lines: Lines::default(), pending: Bytes::new() }
    }

    /// The next message of the answer. None at the end of the answer. If the connection breaks, returns an
    /// error once, and then None. An unreadable message is an error, because it may contain the reason why the
    /// call failed. Dropping the returned future loses no message.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Option<Result<T, EngineError>> {
        let message = self.next_or_unreadable().await?;
        Some(message.and_then(|message| message.map_err(|reason| self.call.garbled(reason))))
    }

    /// Like [`Self::next`], but the inner result is the message or the reason why it cannot be read.
    pub(super) async fn next_or_unreadable<T: DeserializeOwned>(
        &mut self,
    ) -> Option<Result<Result<T, String>, EngineError>> {
        loop {
            if let Some(line) = self.lines.next(&mut self.pending) {
                return Some(Ok(line.and_then(|line| object(&line))));
            }
            match self.body.as_mut()?.frame().await {
                Some(Ok(frame)) => self.pending = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    self.body = None;
                    // The connection broke, so the next call may reach another engine.
                    self.engine.invalidate_version();
                    return Some(Err(self.call.broken(error)));
                }
                None => {
                    self.body = None;
                    // The last message may have no line break.
                    self.pending = Bytes::from_static(b"\n");
                }
            }
        }
    }
}

/// Splits bytes into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    is_too_long: bool,
}

impl Lines {
    /// Takes the next line that is not blank from `input`. None if more bytes are needed.
    pub(super) fn next(&mut self, input: &mut Bytes) -> Option<Result<Vec<u8>, String>> {
        while !input.is_empty() {
            let end = memchr(b'\n', input).map(|at| at + 1);
            let part = input.split_to(end.unwrap_or(input.len()));
            if self.line.len() + part.len() > LONGEST_LINE {
                self.line = Vec::new();
                self.is_too_long = true;
            }
            if !self.is_too_long {
                self.line.extend_from_slice(&part);
            }
            if end.is_some() {
                let line = mem::take(&mut self.line);
                if mem::take(&mut self.is_too_long) {
                    return Some(Err(format!(
                        "a line of the answer is longer than {LONGEST_LINE} bytes"
                    )));
                }
                if !line.trim_ascii().is_empty() {
                    return Some(Ok(line));
                }
            }
        }
        None
    }
}

/// The error text in a message of a pull or load, if the message has one.
pub(super) fn error_text(message: &docker::Progress) -> Option<&str> {
    let stated = [message.error_detail.message.as_str(), message.error.as_str()];
    stated.into_iter().find(|text| !text.is_empty())
}

/// The longest line that is read, in bytes. A longer line counts as an unreadable message.
const LONGEST_LINE: usize = 64 << 20;

#[cfg(test)]
mod tests;

//! Messages of an endless answer: JSON objects, one after the other, cut anywhere by the
//! transport.
//!
//! The engine ends each with a line break, but proxies and old engines join them. What is no JSON
//! is passed over up to the next line break: one odd message must not end a stream of events.

use std::sync::Arc;

use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use serde_json::{Deserializer, value::RawValue};
use tracing::debug;

use super::{
    client::{self, Engine},
    error::{Call, EngineError},
};
use crate::wire::docker;

/// The messages of one answer. Dropping it ends the call: the connection is closed, which the
/// engine takes as the request to stop.
#[derive(Debug)]
pub(super) struct Messages {
    engine: Engine,
    call: Call,
    body: Option<Incoming>,
    decoder: Decoder,
}

impl Messages {
    pub(super) fn new(engine: Engine, call: Call, body: Incoming) -> Self {
        Self { engine, call, body: Some(body), decoder: Decoder::default() }
    }

    /// The next message; none at the orderly end. Safe to drop and call again.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Option<Result<T, EngineError>> {
        loop {
            if let Some(message) = self.decoder.next() {
                return Some(Ok(message));
            }
            let body = self.body.as_mut()?;
            match body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.decoder.feed(bytes);
                    }
                }
                Some(Err(error)) => {
                    self.body = None;
                    // The next call may reach another engine.
                    self.engine.invalidate_version();
                    return Some(Err(client::broken(&self.call, Arc::new(error))));
                }
                None => {
                    self.body = None;
                    // The last message may lack its line break.
                    self.decoder.feed(b"\n");
                }
            }
        }
    }
}

/// Cuts bytes into JSON values.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    pending: BytesMut,
    /// `pending` has no complete value: wait for more bytes.
    drained: bool,
    /// Pass over everything up to the next line break.
    skipping: bool,
}

/// What the pending bytes begin with.
enum Parsed<T> {
    /// So many bytes of JSON, and what they say if it is of the right form.
    Value(usize, Option<T>),
    /// The beginning of a value, or no JSON: which of them shows when the line is complete. (A number
    /// cut behind its point is no beginning to serde_json.)
    Part,
}

impl Decoder {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        // A value is complete with its closing brace: do not parse at every byte.
        self.drained &= !bytes.iter().any(|byte| matches!(byte, b'}' | b'\n'));
        if self.pending.len() > LARGEST_MESSAGE {
            self.skipping = true;
            self.drained = false;
        }
    }

    /// The next value of the right form, while there is one.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> Option<T> {
        while !self.drained {
            if self.skipping {
                self.skip_line();
                continue;
            }
            let blanks = self.pending.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.pending.advance(blanks);
            match found(&self.pending) {
                Parsed::Value(length, value) => {
                    self.pending.advance(length);
                    if value.is_some() {
                        return value;
                    }
                }
                Parsed::Part if !self.pending.contains(&b'\n') => self.drained = true,
                Parsed::Part => self.skipping = true,
            }
        }
        None
    }

    /// Drops the line begun, as far as it is here.
    fn skip_line(&mut self) {
        match self.pending.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                debug!("skipped a message from Docker that is not JSON");
                self.pending.advance(end + 1);
                self.skipping = false;
            }
            None => {
                self.pending.clear();
                self.drained = true;
            }
        }
    }
}

fn found<T: DeserializeOwned>(bytes: &[u8]) -> Parsed<T> {
    let mut values = Deserializer::from_slice(bytes).into_iter::<&RawValue>();
    match values.next() {
        // First its bounds, then its meaning: JSON of another form must not cost what follows.
        Some(Ok(raw)) => {
            let value = serde_json::from_str(raw.get()).inspect_err(
                |reason| debug!(%reason, "skipped a message from Docker of an unknown form"),
            );
            Parsed::Value(values.byte_offset(), value.ok())
        }
        Some(Err(_)) | None => Parsed::Part,
    }
}

/// The failure a message of a pull or load reports, if it does.
pub(super) fn failure(message: &docker::Progress) -> Option<&str> {
    let stated = [message.error_detail.message.as_str(), message.error.as_str()];
    stated.into_iter().find(|text| !text.is_empty())
}

/// No message of the engine comes near; what does not end is not kept.
const LARGEST_MESSAGE: usize = 4 * 1024 * 1024;

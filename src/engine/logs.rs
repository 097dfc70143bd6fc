//! A container's log from the engine, if its file cannot be read from here.

use http_body_util::BodyExt;
use hyper::{Method, body::Incoming};
use jiff::Timestamp;

use super::{
    address,
    client::Engine,
    error::{Call, EngineError, Subject},
    log_messages::{Decoder, LogMessage},
};

/// The messages of a log: first old ones, then new ones as they arrive. Dropping it ends the call.
#[derive(Debug)]
pub struct LogMessages {
    engine: Engine,
    call: Call,
    body: Option<Incoming>,
    decoder: Decoder,
}

impl Engine {
    /// Follows a container's log from the time `since` on, including messages of exactly that time. The
    /// caller must know whether the container has a terminal.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] if there is no such container, other errors if its log driver stores
    /// nothing that can be read.
    pub async fn follow_logs(
        &self,
        id: &str,
        tty: bool,
        since: Option<Timestamp>,
    ) -> Result<LogMessages, EngineError> {
        let since = since.and_then(seconds).unwrap_or_default();
        let mut query =
            vec![("follow", "1"), ("stdout", "1"), ("stderr", "1"), ("timestamps", "1")];
        if !since.is_empty() {
            query.push(("since", &since));
        }
        let tail = address::with_query("/logs", &query);
        let follow =
            self.request(Method::GET, "follow the log of", Subject::container(id), &tail)?;
        let body = Some(self.begin(&follow).await?);
        let decoder = Decoder::new(tty);
        Ok(LogMessages { engine: self.clone(), call: follow.call, body, decoder })
    }
}

impl LogMessages {
    /// The next message. None if the container has ended and everything was sent, or if the engine gives
    /// up. Safe to drop and call again.
    ///
    /// # Errors
    /// The connection broke, or the data is not a log. Nothing follows.
    pub async fn next(&mut self) -> Option<Result<LogMessage, EngineError>> {
        loop {
            match self.decoder.next() {
                Ok(Some(message)) => return Some(Ok(message)),
                Ok(None) => {}
                Err(reason) => return self.end_with(self.call.garbled(reason)),
            }
            let frame = self.body.as_mut()?.frame().await;
            match frame {
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.decoder.feed(bytes);
                    }
                }
                Some(Err(error)) => {
                    self.engine.invalidate_version();
                    return self.end_with(self.call.broken(error));
                }
                None => {
                    self.body = None;
                    return match self.decoder.rest() {
                        Ok(rest) => rest.map(Ok),
                        Err(reason) => Some(Err(self.call.garbled(reason))),
                    };
                }
            }
        }
    }

    fn end_with(&mut self, error: EngineError) -> Option<Result<LogMessage, EngineError>> {
        self.body = None;
        self.decoder = Decoder::new(false);
        Some(Err(error))
    }
}

/// The engine's format of a time. If there is none, everything is sent, because duplicates are better than
/// losses.
pub(super) fn seconds(time: Timestamp) -> Option<String> {
    let nanos = u64::try_from(time.as_nanosecond()).ok()?;
    Some(format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000))
}

//! The connection to one NRI plugin: dockbridge's calls to the plugin, which have a time limit, and the plugin's
//! calls to dockbridge. dockbridge disconnects a plugin that violates the protocol.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use prost::Message;
use thiserror::Error;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, oneshot},
    time,
};
use tokio_util::sync::CancellationToken;

use super::{
    mux::{Channel, Demux, MESSAGE_LIMIT, ProtocolError, frames},
    ttrpc::{Decoder, Envelope, REQUEST, RESPONSE, Request, Response, Status, UNKNOWN, decode},
};
use crate::error::shortened;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum CloseReason {
    #[error("the plugin closed the connection")]
    ByPlugin,
    #[error("the connection to the plugin failed: {0}")]
    Socket(String),
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
    #[error("the plugin sent more than {WAITING_REQUESTS} requests that were not answered yet")]
    TooManyRequests,
    #[error("the plugin did not complete {method} within {limit:?}")]
    Timeout { method: &'static str, limit: Duration },
    #[error("{0}")]
    Violation(String),
    /// dockbridge does not know the existing pods and containers yet, which a new plugin must receive.
    #[error("Docker has not listed its containers yet")]
    NotReady,
    #[error("dockbridge is stopping")]
    Shutdown,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum CallError {
    /// The plugin answered with an error, or the request is too long. [`Connection::call`] leaves the connection open.
    #[error("{message}")]
    Refused { code: i32, message: String },
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

/// A call from the plugin to dockbridge.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub(super) stream: u32,
    pub(super) request: Request,
}

/// Clones refer to the same connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    outgoing: mpsc::Sender<Vec<u8>>,
    waiting: Arc<Mutex<Waiting>>,
    closed: CancellationToken,
    reason: Arc<OnceLock<CloseReason>>,
}

/// dockbridge's calls that the plugin has not answered yet.
#[derive(Debug, Default)]
struct Waiting {
    last_stream: u32,
    answers: HashMap<u32, oneshot::Sender<Response>>,
}

impl Connection {
    /// Starts tasks that serve a plugin's socket until the connection closes. The receiver delivers the plugin's calls.
    pub(super) fn open(socket: UnixStream) -> (Self, mpsc::Receiver<Incoming>) {
        let (outgoing, queue) = mpsc::channel(WAITING_MESSAGES);
        let (requests, incoming) = mpsc::channel(WAITING_REQUESTS);
        let connection = Self {
            outgoing,
            waiting: Arc::default(),
            closed: CancellationToken::new(),
            reason: Arc::default(),
        };
        let (reading, writing) = socket.into_split();
        tokio::spawn(connection.clone().read_all(reading, requests));
        tokio::spawn(connection.clone().write_all(writing, queue));
        (connection, incoming)
    }

    /// Calls a method. Closes the connection if the plugin does not answer within `limit` plus [`LATE_ANSWER`].
    pub(super) async fn call<A: Message + Default>(
        &self,
        method: &'static str,
        message: &impl Message,
        limit: Duration,
    ) -> Result<A, CallError> {
        let (stream, answer) = self.expect_answer();
        let request = Request {
            service: PLUGIN_SERVICE.to_owned(),
            method: method.to_owned(),
            payload: message.encode_to_vec(),
            timeout_nano: i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX),
        };
        let envelope = Envelope::request(stream, &request);
        if envelope.payload.len() > MESSAGE_LIMIT {
            self.waiting.lock().answers.remove(&stream);
            let length = envelope.payload.len();
            let message = format!("the request has {length} bytes, more than a message can have");
            return Err(CallError::Refused { code: UNKNOWN, message });
        }
        let exchange = async {
            self.send(Channel::Plugin, &envelope).await;
            answer.await.ok()
        };
        // A plugin that knows the limit may send its answer exactly when the limit ends.
        let answered = tokio::select! {
            answered = time::timeout(limit + LATE_ANSWER, exchange) => answered,
            () = self.closed.cancelled() => Ok(None),
        };
        match answered {
            Ok(Some(response)) => self.decoded(response),
            Ok(None) => Err(self.reason().into()),
            Err(_) => Err(self.close(CloseReason::Timeout { method, limit }).into()),
        }
    }

    fn decoded<A: Message + Default>(&self, response: Response) -> Result<A, CallError> {
        match response.status {
            Some(Status { code, message }) if code != 0 => {
                Err(CallError::Refused { code, message: shortened(message) })
            }
            _ => decode(&response.payload).map_err(|error| self.close(error.into()).into()),
        }
    }

    pub(super) async fn answer(&self, stream: u32, answer: Result<Vec<u8>, Status>) {
        let response = match answer {
            Ok(payload) => Response { status: None, payload },
            Err(status) => Response { status: Some(status), payload: Vec::new() },
        };
        self.send(Channel::Runtime, &Envelope::response(stream, &response)).await;
    }

    /// Closes the connection. Returns the reason of the first call of `close`.
    pub(super) fn close(&self, reason: CloseReason) -> CloseReason {
        let first = self.reason.get_or_init(|| reason).clone();
        self.closed.cancel();
        self.waiting.lock().answers.clear();
        first
    }

    pub(super) async fn closed(&self) -> CloseReason {
        self.closed.cancelled().await;
        self.reason()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    fn reason(&self) -> CloseReason {
        self.reason.get().cloned().unwrap_or(CloseReason::ByPlugin)
    }

    /// Opens a new stream for a call. ttrpc requires odd stream numbers from the side that calls.
    fn expect_answer(&self) -> (u32, oneshot::Receiver<Response>) {
        let (sender, answer) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        let stream = match waiting.last_stream {
            0 => 1,
            last => last.wrapping_add(2),
        };
        waiting.last_stream = stream;
        waiting.answers.insert(stream, sender);
        (stream, answer)
    }

    async fn send(&self, channel: Channel, envelope: &Envelope) {
        let bytes = frames(channel, &envelope.encoded());
        tokio::select! {
            // `send` fails only if the task that writes to the socket, and so the connection, has ended.
            _ = self.outgoing.send(bytes) => {}
            () = self.closed.cancelled() => {}
        }
    }

    async fn write_all(self, mut socket: OwnedWriteHalf, mut queue: mpsc::Receiver<Vec<u8>>) {
        loop {
            let next = tokio::select! {
                next = queue.recv() => next,
                () = self.closed.cancelled() => return,
            };
            let Some(bytes) = next else { return };
            let written = tokio::select! {
                written = socket.write_all(&bytes) => written,
                () = self.closed.cancelled() => return,
            };
            if let Err(error) = written {
                self.close(of_socket(&error));
                return;
            }
        }
    }

    async fn read_all(self, mut socket: OwnedReadHalf, requests: mpsc::Sender<Incoming>) {
        let (mut demux, mut answers, mut calls) =
            (Demux::default(), Decoder::default(), Decoder::default());
        let (mut last_call, mut is_flooded) = (0, false);
        let mut buffer = vec![0; READ_AT_ONCE];
        let closed = loop {
            let read = tokio::select! {
                read = socket.read(&mut buffer) => read,
                () = self.closed.cancelled() => return,
            };
            let bytes = match read {
                Ok(0) => break CloseReason::ByPlugin,
                Ok(length) => buffer.get(..length).unwrap_or_default(),
                Err(error) => break of_socket(&error),
            };
            let handled = demux.push(bytes, |channel, piece| match channel {
                Channel::Plugin => answers.push(piece, |envelope| self.answered(&envelope)),
                Channel::Runtime => calls.push(piece, |envelope| {
                    let incoming = call_of(&envelope, &mut last_call)?;
                    is_flooded |= requests.try_send(incoming).is_err();
                    Ok(())
                }),
            });
            match handled {
                Err(error) => break error.into(),
                Ok(()) if is_flooded => break CloseReason::TooManyRequests,
                Ok(()) => {}
            }
        };
        self.close(closed);
    }

    /// Handles an answer of the plugin. Fails if the message does not answer an open call, or cannot be decoded.
    fn answered(&self, envelope: &Envelope) -> Result<(), ProtocolError> {
        let Envelope { kind, stream, payload } = envelope;
        let unexpected = || ProtocolError::Unexpected { kind: *kind, stream: *stream };
        if *kind != RESPONSE {
            return Err(unexpected());
        }
        let answer = self.waiting.lock().answers.remove(stream).ok_or_else(unexpected)?;
        let response = Response::decode(payload.as_slice()).map_err(|_| ProtocolError::Message)?;
        // `send` fails if the caller no longer waits for the answer.
        let _ = answer.send(response);
        Ok(())
    }
}

/// Decodes a call of the plugin. The number of its stream must be odd and higher than those of earlier calls.
fn call_of(envelope: &Envelope, last: &mut u32) -> Result<Incoming, ProtocolError> {
    let Envelope { kind, stream, payload } = envelope;
    if *kind != REQUEST || stream % 2 == 0 || *stream <= *last {
        return Err(ProtocolError::Unexpected { kind: *kind, stream: *stream });
    }
    *last = *stream;
    let request = Request::decode(payload.as_slice()).map_err(|_| ProtocolError::Message)?;
    Ok(Incoming { stream: *stream, request })
}

fn of_socket(error: &io::Error) -> CloseReason {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => CloseReason::ByPlugin,
        _ => CloseReason::Socket(error.to_string()),
    }
}

/// Full name of the ttrpc service that plugins implement.
pub(super) const PLUGIN_SERVICE: &str = "nri.pkg.api.v1alpha1.Plugin";
const WAITING_REQUESTS: usize = 16;
/// Maximum number of messages that wait for the task that writes to the socket.
const WAITING_MESSAGES: usize = 16;
const READ_AT_ONCE: usize = 64 << 10;
/// How long after the time limit of a call dockbridge still accepts the answer.
const LATE_ANSWER: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests;

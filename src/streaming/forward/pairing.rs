//! Pairs the streams of a SPDY port-forward: each forwarded connection has an error and a data stream. No I/O.

use std::collections::HashMap;

use tokio::sync::oneshot;
use tracing::info;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::streaming) enum StreamType {
    /// The stream on which dockbridge says why it cannot forward a connection.
    Error,
    Data,
}

/// What the headers of a stream say about its pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::streaming) struct PairStream {
    key: Key,
    pub(super) role: StreamType,
    pub(super) port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The number that the client gives to the forwarded connection (header `requestid`).
    Request(String),
    /// The id of the error stream. Clients that send no `requestid` open the data stream directly after the error
    /// stream.
    Stream(u32),
}

impl PairStream {
    /// Reads the headers of stream `id`.
    ///
    /// # Errors
    /// Fails with the reason why the stream cannot be part of a pair.
    pub(in crate::streaming) fn read<'a>(
        id: u32,
        header: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Self, &'static str> {
        let role = match header("streamType") {
            Some("error") => StreamType::Error,
            Some("data") => StreamType::Data,
            _ => return Err("the stream's type is neither error nor data"),
        };
        let port = header("port").and_then(|port| port.parse().ok()).filter(|port| *port != 0);
        let port = port.ok_or("the stream's port is missing or not between 1 and 65535")?;
        let key = match (header("requestID").filter(|id| !id.is_empty()), role) {
            (Some(request), _) => Key::Request(request.to_owned()),
            (None, StreamType::Error) => Key::Stream(id),
            (None, StreamType::Data) => Key::Stream(id.saturating_sub(2)),
        };
        Ok(Self { key, role, port })
    }
}

/// An accepted stream, and what its headers say about its pair.
#[derive(Debug)]
pub(in crate::streaming) struct AcceptedStream<S> {
    pub(in crate::streaming) half: PairStream,
    pub(in crate::streaming) stream: S,
}

/// The first stream of a pair, and the channel on which the second stream arrives.
#[derive(Debug)]
pub(in crate::streaming) struct FirstStream<S> {
    pub(in crate::streaming) accepted: AcceptedStream<S>,
    pub(in crate::streaming) second: oneshot::Receiver<AcceptedStream<S>>,
}

/// For each incomplete pair: the type of the first stream, and the channel to the waiting task.
#[derive(Debug)]
pub(in crate::streaming) struct Pairing<S>(
    HashMap<Key, (StreamType, oneshot::Sender<AcceptedStream<S>>)>,
);

impl<S> Pairing<S> {
    pub(in crate::streaming) fn new() -> Self {
        Self(HashMap::new())
    }

    /// Adds a stream and accepts it, unless the waiting first stream of its pair has the same type. If the stream is
    /// the first of its pair, returns it with the channel on which the second stream will arrive. The pair no longer
    /// waits once this channel is dropped.
    pub(in crate::streaming) fn join(
        &mut self,
        half: PairStream,
        accept: impl FnOnce() -> S,
    ) -> Option<FirstStream<S>> {
        self.0.retain(|_, (_, waiting)| !waiting.is_closed());
        if self.0.get(&half.key).is_some_and(|(role, _)| *role == half.role) {
            info!("refused a port-forward stream: its pair already has a stream of this type");
            return None;
        }
        if let Some((_, waiting)) = self.0.remove(&half.key) {
            // If the task no longer waits, the failed `send` drops the stream, and so ends it.
            let _ = waiting.send(AcceptedStream { half, stream: accept() });
            return None;
        }
        let (waiting, second) = oneshot::channel();
        self.0.insert(half.key.clone(), (half.role, waiting));
        Some(FirstStream { accepted: AcceptedStream { half, stream: accept() }, second })
    }
}

#[cfg(test)]
mod tests;

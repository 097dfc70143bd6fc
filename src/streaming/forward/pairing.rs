//! Which streams of a SPDY port-forward belong together: an error and a data stream for each connection. No I/O.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::streaming) enum StreamType {
    /// Failures as text.
    Error,
    Data,
}

/// One stream of a pair, read from its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::streaming) struct PairStream {
    key: Key,
    role: StreamType,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    /// The client's number for the connection.
    Request(String),
    /// For clients without such numbers: the id of the error stream, which they open just before the data
    /// stream.
    Stream(u32),
}

impl PairStream {
    /// Reads the headers of stream `id`.
    ///
    /// # Errors
    /// The reason why it cannot be part of a pair.
    pub(in crate::streaming) fn read<'a>(
        id: u32,
        header: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Self, &'static str> {
        let role = match header("streamType") {
            Some("error") => StreamType::Error,
            Some("data") => StreamType::Data,
            _ => return Err("its type is neither error nor data"),
        };
        let port = header("port").and_then(|port| port.parse().ok()).filter(|port| *port != 0);
        let port = port.ok_or("its port is not between 1 and 65535")?;
        let key = match (header("requestID").filter(|id| !id.is_empty()), role) {
            (Some(request), _) => Key::Request(request.to_owned()),
            (None, StreamType::Error) => Key::Stream(id),
            (None, StreamType::Data) => Key::Stream(id.saturating_sub(2)),
        };
        Ok(Self { key, role, port })
    }
}

/// Streams that wait for the other stream of their pair.
#[derive(Debug)]
pub(in crate::streaming) struct Pairing<S> {
    /// Sorted by deadline.
    waiting: VecDeque<Unpaired<S>>,
    time_limit: Duration,
}

#[derive(Debug)]
struct Unpaired<S> {
    half: PairStream,
    stream: S,
    expiry: Instant,
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::streaming) enum PairingResult<S> {
    /// The other stream has not been opened yet.
    Waits,
    /// There is already a waiting stream of this kind. The new one was not accepted.
    Twice,
    Paired {
        /// From the data stream.
        port: u16,
        error: S,
        data: S,
    },
}

impl<S> Pairing<S> {
    /// Streams may wait for `time_limit`.
    pub(in crate::streaming) fn new(time_limit: Duration) -> Self {
        Self { waiting: VecDeque::new(), time_limit }
    }

    /// Adds a stream, and accepts it if it fits.
    pub(in crate::streaming) fn join(
        &mut self,
        half: PairStream,
        now: Instant,
        accept: impl FnOnce() -> S,
    ) -> PairingResult<S> {
        let same = |first: &Unpaired<S>| first.half.key == half.key;
        if self.waiting.iter().any(|first| same(first) && first.half.role == half.role) {
            return PairingResult::Twice;
        }
        let place = self.waiting.iter().position(same);
        let Some(first) = place.and_then(|place| self.waiting.remove(place)) else {
            let expiry = now + self.time_limit;
            self.waiting.push_back(Unpaired { half, stream: accept(), expiry });
            return PairingResult::Waits;
        };
        match half.role {
            StreamType::Data => {
                PairingResult::Paired { port: half.port, error: first.stream, data: accept() }
            }
            StreamType::Error => {
                PairingResult::Paired { port: first.half.port, error: accept(), data: first.stream }
            }
        }
    }

    /// When the first waiting stream expires.
    pub(in crate::streaming) fn expiry(&self) -> Option<Instant> {
        self.waiting.front().map(|waiting| waiting.expiry)
    }

    pub(in crate::streaming) fn expire(&mut self, now: Instant) -> Vec<(StreamType, S)> {
        let late = self.waiting.iter().take_while(|waiting| waiting.expiry <= now).count();
        self.waiting.drain(..late).map(|waiting| (waiting.half.role, waiting.stream)).collect()
    }
}

#[cfg(test)]
mod tests;

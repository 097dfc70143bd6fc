//! Which streams of a SPDY port-forward belong together: an error and a data stream for each
//! connection. Pure.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::streaming) enum Role {
    /// Failures, in words.
    Error,
    /// What is forwarded.
    Data,
}

/// One stream of a pair, by its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::streaming) struct Half {
    key: Key,
    role: Role,
    port: u16,
}

/// What both streams of a pair have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The client's number for the connection.
    Request(String),
    /// Of clients that give none: the number of the error stream, which they open right before
    /// the data stream.
    Stream(u32),
}

impl Half {
    /// Reads the headers of stream `id`.
    ///
    /// # Errors
    /// Why it cannot be part of a pair.
    pub(in crate::streaming) fn read<'a>(
        id: u32,
        header: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Self, &'static str> {
        let role = match header("streamType") {
            Some("error") => Role::Error,
            Some("data") => Role::Data,
            _ => return Err("its type is neither error nor data"),
        };
        let port = header("port").and_then(|port| port.parse().ok()).filter(|port| *port != 0);
        let port = port.ok_or("its port is not between 1 and 65535")?;
        let key = match (header("requestID").filter(|id| !id.is_empty()), role) {
            (Some(request), _) => Key::Request(request.to_owned()),
            (None, Role::Error) => Key::Stream(id),
            (None, Role::Data) => Key::Stream(id.saturating_sub(2)),
        };
        Ok(Self { key, role, port })
    }
}

/// Streams that wait for their partners.
#[derive(Debug)]
pub(in crate::streaming) struct Pairing<S> {
    waiting: HashMap<Key, Waiting<S>>,
    patience: Duration,
}

#[derive(Debug)]
struct Waiting<S> {
    role: Role,
    port: u16,
    stream: S,
    expiry: Instant,
}

/// What became of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::streaming) enum Joined<S> {
    /// Its partner is still to come.
    Waits,
    /// One of its kind waits already; it was not accepted.
    Twice,
    /// The pair is complete.
    Paired {
        /// Of the data stream.
        port: u16,
        /// Failures.
        error: S,
        /// What is forwarded.
        data: S,
    },
}

impl<S> Pairing<S> {
    /// Streams may wait for as long as `patience`.
    pub(in crate::streaming) fn new(patience: Duration) -> Self {
        Self { waiting: HashMap::new(), patience }
    }

    /// Adds a stream, which is accepted when it fits.
    pub(in crate::streaming) fn join(
        &mut self,
        half: Half,
        now: Instant,
        accept: impl FnOnce() -> S,
    ) -> Joined<S> {
        let Half { key, role, port } = half;
        if self.waiting.get(&key).is_some_and(|first| first.role == role) {
            return Joined::Twice;
        }
        let Some(first) = self.waiting.remove(&key) else {
            let expiry = now + self.patience;
            self.waiting.insert(key, Waiting { role, port, stream: accept(), expiry });
            return Joined::Waits;
        };
        match role {
            Role::Data => Joined::Paired { port, error: first.stream, data: accept() },
            Role::Error => Joined::Paired { port: first.port, error: accept(), data: first.stream },
        }
    }

    /// When the first of the waiting streams has waited long enough.
    pub(in crate::streaming) fn expiry(&self) -> Option<Instant> {
        self.waiting.values().map(|waiting| waiting.expiry).min()
    }

    /// Takes out the streams that have waited long enough.
    pub(in crate::streaming) fn expire(&mut self, now: Instant) -> Vec<(Role, S)> {
        let late = self.waiting.extract_if(|_, waiting| waiting.expiry <= now);
        late.map(|(_, waiting)| (waiting.role, waiting.stream)).collect()
    }
}

#[cfg(test)]
mod tests;

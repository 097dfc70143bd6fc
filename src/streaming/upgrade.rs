//! Selects the protocol of a stream from the headers of the HTTP request that starts it. No I/O.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    HeaderMap, Method, Request, Response, StatusCode,
    header::{
        CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
        SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use sha1::{Digest as _, Sha1};

/// What the streams are for, which decides which protocols dockbridge supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Command,
    Forward,
}

/// The protocol that dockbridge and the client have negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Streams of a SPDY connection. For port-forward, the version is `V1`.
    Spdy(Version),
    /// Numbered channels in the messages of a WebSocket.
    Channels(Version, Encoding),
    /// A SPDY connection inside the binary messages of a WebSocket.
    Tunnel,
}

/// The version of Kubernetes' protocol for remote commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// The error stream has failures as plain text.
    V1,
    /// As V1, and the error stream always ends.
    V2,
    /// As V2, and the client can resize a terminal.
    V3,
    /// As V3, but the error stream has the outcome as JSON.
    V4,
    /// As V4, and a message can close a single channel of a WebSocket.
    V5,
}

/// How bytes are encoded in WebSocket messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A message has a byte with the channel's number, and then the unchanged bytes.
    Binary,
    /// A message has an ASCII character for the channel, counted from the digit 0, and then the bytes as base64.
    Base64,
}

/// The negotiated protocol, and the HTTP answer that confirms it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    pub protocol: Protocol,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// The answer to a client whose request dockbridge refuses, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    status: StatusCode,
    text: &'static str,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Selects a protocol that both the client and dockbridge support.
pub fn negotiate<B>(request: &Request<B>, purpose: Purpose) -> Result<Upgrade, Refusal> {
    let headers = request.headers();
    if !holds(headers, &CONNECTION, "upgrade") {
        return Err(NO_UPGRADE);
    }
    if holds(headers, &UPGRADE, "websocket") {
        return websocket(request.method(), headers, purpose);
    }
    if holds(headers, &UPGRADE, SPDY) {
        return spdy(headers, purpose);
    }
    Err(NO_UPGRADE)
}

fn spdy(headers: &HeaderMap, purpose: Purpose) -> Result<Upgrade, Refusal> {
    let mut wanted = words(headers, &STREAM_VERSION).peekable();
    if wanted.peek().is_none() {
        return Err(NO_VERSIONS);
    }
    let ours = match purpose {
        Purpose::Command => &COMMAND_VERSIONS[..],
        Purpose::Forward => &FORWARD_VERSIONS[..],
    };
    let found = wanted.find_map(|name| ours.iter().find(|(known, _)| *known == name));
    let (name, version) = found.ok_or_else(|| {
        let ours = ours.iter().map(|(name, _)| (ACCEPTED_VERSIONS, HeaderValue::from_static(name)));
        Refusal { headers: ours.collect(), ..NO_SPDY_VERSION }
    })?;
    Ok(Upgrade {
        protocol: Protocol::Spdy(*version),
        headers: vec![
            (UPGRADE, HeaderValue::from_static(SPDY)),
            (STREAM_VERSION, HeaderValue::from_static(name)),
        ],
    })
}

fn websocket(method: &Method, headers: &HeaderMap, purpose: Purpose) -> Result<Upgrade, Refusal> {
    if method != Method::GET {
        return Err(NOT_GET);
    }
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != WEBSOCKET_VERSION) {
        let ours = (SEC_WEBSOCKET_VERSION, HeaderValue::from_static(WEBSOCKET_VERSION));
        return Err(Refusal { headers: vec![ours], ..OLD_WEBSOCKET });
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).map_or(&[][..], HeaderValue::as_bytes);
    if !STANDARD.decode(key).is_ok_and(|key| key.len() == KEY_BYTES) {
        return Err(BAD_KEY);
    }
    let (name, protocol) = subprotocol(headers, purpose)?;
    let accept =
        STANDARD.encode(Sha1::new().chain_update(key).chain_update(WEBSOCKET_GUID).finalize());
    let accept = HeaderValue::try_from(accept).map_err(|_| BAD_KEY)?;
    let mut answer =
        vec![(UPGRADE, HeaderValue::from_static("websocket")), (SEC_WEBSOCKET_ACCEPT, accept)];
    // The answer must name no subprotocol if the client requested none.
    answer.extend(name.map(|name| (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name))));
    Ok(Upgrade { protocol, headers: answer })
}

fn subprotocol(
    headers: &HeaderMap,
    purpose: Purpose,
) -> Result<(Option<&'static str>, Protocol), Refusal> {
    let ours = match purpose {
        Purpose::Command => &COMMAND_SUBPROTOCOLS[..],
        Purpose::Forward => &FORWARD_SUBPROTOCOLS[..],
    };
    let mut wanted = words(headers, &SEC_WEBSOCKET_PROTOCOL).peekable();
    if wanted.peek().is_none() {
        return Ok((None, Protocol::Channels(Version::V1, Encoding::Binary)));
    }
    let found = wanted.find_map(|name| ours.iter().find(|(known, _)| *known == name));
    found.map(|(name, protocol)| (Some(*name), *protocol)).ok_or(NO_SUBPROTOCOL)
}

impl Upgrade {
    /// The HTTP answer that switches the connection to the protocol.
    pub fn response<B: Default>(&self) -> Response<B> {
        let mut response = Response::new(B::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        response.headers_mut().extend(self.headers.iter().cloned());
        response
    }
}

impl Refusal {
    const fn new(status: StatusCode, text: &'static str) -> Self {
        Self { status, text, headers: Vec::new() }
    }

    /// The HTTP answer that says why dockbridge refuses the upgrade.
    pub fn response<B: From<&'static str>>(self) -> Response<B> {
        let mut response = Response::new(B::from(self.text));
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers);
        response
    }
}

/// Whether one of the [`words`] of a header is `word`. Ignores case.
fn holds(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    words(headers, name).any(|found| found.eq_ignore_ascii_case(word))
}

/// The words of a header, which may have several lines with lists. A list with only commas is empty.
fn words<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> + use<'a> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

const NO_UPGRADE: Refusal = Refusal::new(
    StatusCode::BAD_REQUEST,
    "this address speaks SPDY/3.1 and WebSocket: an upgrade is required\n",
);
const NO_VERSIONS: Refusal =
    Refusal::new(StatusCode::BAD_REQUEST, "the header X-Stream-Protocol-Version is required\n");
const NO_SPDY_VERSION: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "none of the requested stream protocol versions is supported\n",
);
const NO_SUBPROTOCOL: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "none of the requested WebSocket subprotocols is supported\n",
);
const NOT_GET: Refusal =
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "a WebSocket handshake must use GET\n");
const OLD_WEBSOCKET: Refusal =
    Refusal::new(StatusCode::UPGRADE_REQUIRED, "Sec-WebSocket-Version 13 is required\n");
const BAD_KEY: Refusal =
    Refusal::new(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key must be base64 of 16 bytes\n");

const SPDY: &str = "SPDY/3.1";
const STREAM_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED_VERSIONS: HeaderName =
    HeaderName::from_static("x-accepted-stream-protocol-versions");
/// The version of the protocol in RFC 6455.
const WEBSOCKET_VERSION: &str = "13";
/// Constant of RFC 6455, 1.3, with which the answer proves that dockbridge has read the request.
const WEBSOCKET_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Length of the client's decoded key (RFC 6455, 4.1).
const KEY_BYTES: usize = 16;

const COMMAND_VERSIONS: [(&str, Version); 4] = [
    ("v4.channel.k8s.io", Version::V4),
    ("v3.channel.k8s.io", Version::V3),
    ("v2.channel.k8s.io", Version::V2),
    ("channel.k8s.io", Version::V1),
];

const FORWARD_VERSIONS: [(&str, Version); 1] = [("portforward.k8s.io", Version::V1)];

const COMMAND_SUBPROTOCOLS: [(&str, Protocol); 5] = [
    ("v5.channel.k8s.io", Protocol::Channels(Version::V5, Encoding::Binary)),
    ("v4.channel.k8s.io", Protocol::Channels(Version::V4, Encoding::Binary)),
    ("v4.base64.channel.k8s.io", Protocol::Channels(Version::V4, Encoding::Base64)),
    ("channel.k8s.io", Protocol::Channels(Version::V1, Encoding::Binary)),
    ("base64.channel.k8s.io", Protocol::Channels(Version::V1, Encoding::Base64)),
];

const FORWARD_SUBPROTOCOLS: [(&str, Protocol); 3] = [
    ("v4.channel.k8s.io", Protocol::Channels(Version::V4, Encoding::Binary)),
    ("v4.base64.channel.k8s.io", Protocol::Channels(Version::V4, Encoding::Base64)),
    ("SPDY/3.1+portforward.k8s.io", Protocol::Tunnel),
];

#[cfg(test)]
mod tests;

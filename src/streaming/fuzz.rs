//! Entry points for `make fuzz`: headers of an HTTP upgrade request, WebSocket messages,
//! sizes of a terminal.

use std::io::{Cursor, Read, Result, Write};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Uri};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{
    Message, WebSocket,
    protocol::{Role, frame::Utf8Bytes},
};

use super::{
    command::size::SizeBuffer,
    forward::pairing::{PairStream, Pairing, PairingResult},
    ports,
    token::Tokens,
    upgrade::{Encoding, Purpose, negotiate},
    websocket::message::{ClientMessage, Format, LARGEST_MESSAGE, limits},
};
use crate::fuzz_input::portions;

/// A request as lines: method and address, then headers. What it names is agreed upon or refused;
/// a token is worth nothing, ports are between 1 and 65535.
pub(crate) fn upgrade(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = str::from_utf8(lines.next().unwrap_or_default()).unwrap_or_default();
    let (method, address) = first.split_once(' ').unwrap_or((first, ""));
    let mut request = Request::new(());
    if let Ok(method) = method.parse() {
        *request.method_mut() = method;
    }
    *request.uri_mut() = address.parse().unwrap_or_else(|_| Uri::from_static("/"));
    for line in lines {
        let (name, value) = line.split_at(line.iter().position(|b| *b == b':').unwrap_or(0));
        let value = HeaderValue::from_bytes(value.get(1..).unwrap_or_default().trim_ascii());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), value) {
            request.headers_mut().append(name, value);
        }
    }
    let mut pairing = Pairing::new(std::time::Duration::from_secs(1));
    for purpose in [Purpose::Command, Purpose::Forward] {
        match negotiate(&request, purpose) {
            Ok(agreed) => assert_eq!(agreed.response::<Bytes>().status(), 101),
            Err(refusal) => assert!(refusal.response::<Bytes>().status().is_client_error()),
        }
        let text = |name: &str| request.headers().get(name)?.to_str().ok();
        if let Ok(half) = PairStream::read(1, text) {
            assert_eq!(pairing.join(half.clone(), std::time::Instant::now(), || ()), {
                if purpose == Purpose::Command {
                    PairingResult::Waits
                } else {
                    PairingResult::Twice
                }
            });
        }
    }
    if let Some(ports) = ports::of_query(request.uri().query()) {
        assert!(!ports.contains(&0));
    }
    let mut tokens = Tokens::default();
    let now = Instant::now();
    let issued = tokens.issue((), now, || [7; 6]);
    let brought = request.uri().path().rsplit('/').next().unwrap_or_default();
    let known = issued.is_ok_and(|token| token == brought);
    assert_eq!(tokens.redeem(brought, now).is_some(), known);
    assert_eq!(tokens.redeem(brought, now), None, "a token is good once");
    sizes(bytes);
}

/// Sizes of a terminal: what is read does not depend on the cut.
fn sizes(bytes: &[u8]) {
    if bytes.len() > LONGEST_SIZES {
        return;
    }
    let read = |portions: Vec<&[u8]>| {
        let (mut buffer, mut last) = (SizeBuffer::default(), None);
        for portion in portions {
            last = buffer.push(portion).ok()?.or(last);
        }
        Some(last)
    };
    // What is no size is refused sooner or later: `5E` may become a number, `5` alone is none.
    if let (Some(whole), Some(cut)) = (read(vec![bytes]), read(portions(bytes))) {
        assert_eq!(whole, cut, "the cut changed a size");
    }
}

/// What a client sends over a WebSocket, in any cut, and each message in every format.
pub(crate) fn websocket(bytes: &[u8]) {
    let whole = messages(vec![bytes]);
    let cut = messages(portions(bytes));
    assert_eq!(whole, cut, "the cut changed the messages");
    for message in whole.into_iter().chain([
        Message::Binary(Bytes::copy_from_slice(bytes)),
        Message::Text(Utf8Bytes::from(String::from_utf8_lossy(bytes).into_owned())),
    ]) {
        for format in FORMATS {
            let length = message.len();
            if let Ok(ClientMessage::Data(channel, said)) = format.read(message.clone()) {
                assert!(said.len() < length, "more came out than went in");
                if usize::from(channel) < format.channels() {
                    let again = format.read(format.write(channel, &said));
                    assert_eq!(again, Ok(ClientMessage::Data(channel, said)));
                }
            }
        }
    }
}

/// The messages up to the first fault or the end.
fn messages(portions: Vec<&[u8]>) -> Vec<Message> {
    let peer = Peer { portions: portions.into_iter().map(Cursor::new).collect(), now: 0 };
    let mut socket = WebSocket::from_raw_socket(peer, Role::Server, Some(limits()));
    let mut messages = Vec::new();
    while let Ok(message) = socket.read() {
        assert!(message.len() <= LARGEST_MESSAGE);
        messages.push(message);
    }
    messages
}

/// A peer that sends one chunk after the other and reads everything.
struct Peer<'a> {
    portions: Vec<Cursor<&'a [u8]>>,
    now: usize,
}

impl Read for Peer<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while let Some(portion) = self.portions.get_mut(self.now) {
            let read = portion.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            self.now += 1;
        }
        Ok(0)
    }
}

impl Write for Peer<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

const FORMATS: [Format; 3] = [
    Format { encoding: Encoding::Binary, closes: false },
    Format { encoding: Encoding::Binary, closes: true },
    Format { encoding: Encoding::Base64, closes: false },
];
/// A size that is longer is none, and how much has come of it then depends on the cut.
const LONGEST_SIZES: usize = 4096;

//! Targets of `make fuzz`: HTTP upgrade requests, WebSocket frames and messages, and terminal sizes.

use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Request, Uri};
use tokio::time::Instant;

use super::{
    command::size::SizeBuffer,
    forward::pairing::{PairStream, Pairing},
    ports,
    token::Tokens,
    upgrade::{Encoding, Purpose, negotiate},
    websocket::{
        frame::{Decoder, Frame, Malformed},
        message::{ClientMessage, Format, MessageReader},
    },
};
use crate::fuzz_input::portions;

/// Parses an HTTP request. The first line of the input has method and address, the other lines have headers.
/// dockbridge must either negotiate a protocol or refuse the request. dockbridge must accept only the
/// issued token, only once, and find only ports between 1 and 65535.
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
    let (mut pairing, mut waiting) = (Pairing::new(), Vec::new());
    for purpose in [Purpose::Command, Purpose::Forward] {
        match negotiate(&request, purpose) {
            Ok(agreed) => assert_eq!(agreed.response::<Bytes>().status(), 101),
            Err(refusal) => assert!(refusal.response::<Bytes>().status().is_client_error()),
        }
        let text = |name: &str| request.headers().get(name)?.to_str().ok();
        if let Ok(half) = PairStream::read(1, text) {
            waiting.extend(pairing.join(half, || ()));
            assert_eq!(waiting.len(), 1, "the second one is refused");
        }
    }
    if let Some(ports) = ports::of_query(request.uri().query()) {
        assert!(!ports.contains(&0));
    }
    let mut tokens = Tokens::default();
    let now = Instant::now();
    let issued = tokens.issue((), now, || [7; 6]);
    let brought = request.uri().path().rsplit('/').next().unwrap_or_default();
    let known = issued.is_some_and(|token| token == brought);
    assert_eq!(tokens.redeem(brought, now).is_some(), known);
    assert_eq!(tokens.redeem(brought, now), None, "a token is good once");
    sizes(bytes);
}

/// Parses terminal sizes. The result for valid bytes must not depend on how the bytes are split.
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
    // The test compares only successful reads, because the split can decide when invalid input is refused: `5E` is
    // an incomplete number, which is not refused yet, but `5` alone is refused at once.
    if let (Some(whole), Some(cut)) = (read(vec![bytes]), read(portions(bytes))) {
        assert_eq!(whole, cut, "the cut changed a size");
    }
}

/// Decodes WebSocket frames, and one message in each format. The result must not depend on how the bytes are split.
pub(crate) fn websocket(bytes: &[u8]) {
    let whole = frames(vec![bytes]);
    assert_eq!(whole, frames(portions(bytes)), "the cut changed the frames");
    for format in FORMATS {
        let frames = whole.0.iter().filter_map(|frame| match frame {
            Frame::Data { bytes, last, .. } => Some((bytes.clone(), *last)),
            Frame::Ping(_) | Frame::Close(_) => None,
        });
        let said = messages(format, frames).unwrap_or_default();
        let length: usize = said.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(length <= bytes.len(), "more came out than went in");
        let piece = |bytes| (Bytes::copy_from_slice(bytes), false);
        let cut = portions(bytes).into_iter().map(piece).chain([(Bytes::new(), true)]);
        let message = messages(format, [(Bytes::copy_from_slice(bytes), true)]);
        assert_eq!(message, messages(format, cut), "the cut changed a message");
        for (channel, said) in message.into_iter().flatten() {
            if usize::from(channel) < format.channels() {
                let (head, payload) = format.write(channel, said.clone());
                let first = head.slice(head.len() - 1..);
                let again = messages(format, [(first, false), (payload, true)]);
                assert_eq!(again, Some(vec![(channel, said)]));
            }
        }
    }
}

/// Decodes frames until the end or the first error, and joins consecutive pieces of a message. Also returns whether
/// there was an error.
fn frames(portions: Vec<&[u8]>) -> (Vec<Frame>, bool) {
    let (mut decoder, mut input, mut frames) = (Decoder::default(), BytesMut::new(), Vec::new());
    for portion in portions {
        input.extend_from_slice(portion);
        loop {
            let frame = match decoder.next(&mut input) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(Malformed) => return (frames, true),
            };
            match (frames.last_mut(), frame) {
                (
                    Some(Frame::Data { bytes: held, last: over @ false, .. }),
                    Frame::Data { bytes, last, .. },
                ) => {
                    *held = [&held[..], &bytes].concat().into();
                    *over = last;
                }
                (_, frame) => frames.push(frame),
            }
        }
    }
    (frames, false)
}

/// Reads messages, and joins consecutive data of the same channel. Returns `None` after an error.
fn messages(
    format: Format,
    pieces: impl IntoIterator<Item = (Bytes, bool)>,
) -> Option<Vec<(u8, Bytes)>> {
    let (mut reader, mut said) = (MessageReader::new(format), Vec::<(u8, Bytes)>::new());
    for (bytes, last) in pieces {
        if let ClientMessage::Data(channel, bytes) = reader.read(bytes, last).ok()? {
            match said.last_mut() {
                Some((before, held)) if *before == channel => {
                    *held = [&held[..], &bytes].concat().into();
                }
                _ => said.push((channel, bytes)),
            }
        }
    }
    Some(said)
}

const FORMATS: [Format; 3] = [
    Format { encoding: Encoding::Binary, closes: false },
    Format { encoding: Encoding::Binary, closes: true },
    Format { encoding: Encoding::Base64, closes: false },
];
/// Longest input for terminal sizes, in bytes. dockbridge refuses a longer size, but how much it reads before that
/// depends on the split.
const LONGEST_SIZES: usize = 4096;

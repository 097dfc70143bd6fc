//! Tests with listed and with random WebSocket messages.

use bytes::Bytes;
use proptest::prelude::*;

use super::{ClientMessage, Format, Malformed, MessageReader};
use crate::streaming::upgrade::Encoding::{self, Base64, Binary};

/// Decodes a message that arrives in one piece.
fn read(encoding: Encoding, closes: bool, bytes: &[u8]) -> Result<ClientMessage, Malformed> {
    MessageReader::new(Format { encoding, closes }).read(Bytes::copy_from_slice(bytes), true)
}

/// Decodes a message that arrives byte by byte. Joins the data for a channel.
fn by_the_byte(reader: &mut MessageReader, bytes: &[u8]) -> Result<Vec<ClientMessage>, Malformed> {
    let mut said = Vec::new();
    let pieces = bytes.iter().map(|byte| (vec![*byte], false)).chain([(Vec::new(), true)]);
    for (bytes, last) in pieces {
        match (said.last_mut(), reader.read(bytes.into(), last)?) {
            (_, ClientMessage::Nothing) => {}
            (Some(ClientMessage::Data(known, held)), ClientMessage::Data(channel, bytes)) => {
                assert_eq!(*known, channel);
                *held = [&held[..], &bytes].concat().into();
            }
            (_, message) => said.push(message),
        }
    }
    Ok(said)
}

fn data(channel: u8, bytes: &'static [u8]) -> Result<ClientMessage, Malformed> {
    Ok(ClientMessage::Data(channel, Bytes::from_static(bytes)))
}

#[test]
fn the_first_byte_is_the_channel() {
    assert_eq!(read(Binary, true, b"\x00abc"), data(0, b"abc"));
    assert_eq!(read(Binary, true, b"\x04"), data(4, b""));
    assert_eq!(read(Binary, false, b"\xff\x00"), data(255, b"\x00"));
    assert_eq!(read(Binary, true, b""), Ok(ClientMessage::Nothing));
    assert_eq!(read(Base64, false, b"0aGVsbG8="), data(0, b"hello"));
    assert_eq!(read(Base64, false, b"4"), data(4, b""));
    assert_eq!(read(Base64, false, b""), Ok(ClientMessage::Nothing));
}

#[test]
fn only_the_fifth_version_closes_channels() {
    assert_eq!(read(Binary, true, &[255, 0]), Ok(ClientMessage::End(0)));
    assert_eq!(read(Binary, true, &[255, 4]), Ok(ClientMessage::End(4)));
    assert_eq!(read(Binary, true, &[255]), Ok(ClientMessage::Nothing));
    assert_eq!(read(Binary, false, &[255, 0]), data(255, b"\0"));
}

#[test]
fn what_is_no_base64_is_malformed() {
    for bytes in [&b"0a"[..], b"0****", b"\x00aGk=", b" aGk=", b"0aGk=aGk="] {
        assert_eq!(read(Base64, false, bytes), Err(Malformed), "{bytes:?}");
        let mut reader = MessageReader::new(Format { encoding: Base64, closes: false });
        assert_eq!(by_the_byte(&mut reader, bytes), Err(Malformed), "{bytes:?}");
    }
}

/// Splits a message into two fragments, before each byte in turn, and adds an empty last fragment.
#[test]
fn nothing_follows_the_padding() {
    for bytes in [&b"0QQ==A"[..], b"0QQ==QUE=", b"0QQ==="] {
        for cut in 0..bytes.len() {
            let mut reader = MessageReader::new(Format { encoding: Base64, closes: false });
            let (first, second) = bytes.split_at(cut);
            let read = reader.read(Bytes::from_static(first), false);
            let read = read.and_then(|_| reader.read(Bytes::from_static(second), false));
            let read = read.and_then(|_| reader.read(Bytes::new(), true));
            assert_eq!(read, Err(Malformed), "{bytes:?} {cut}");
        }
    }
}

#[test]
fn messages_may_come_by_the_byte() {
    let mut reader = MessageReader::new(Format { encoding: Binary, closes: true });
    for _ in 0..2 {
        assert_eq!(by_the_byte(&mut reader, b""), Ok(vec![]));
        assert_eq!(by_the_byte(&mut reader, b"\0abc"), data(0, b"abc").map(|said| vec![said]));
        assert_eq!(by_the_byte(&mut reader, &[255, 0, 4]), Ok(vec![ClientMessage::End(0)]));
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        channel in 0_u8..80, bytes in prop::collection::vec(any::<u8>(), 0..200), plain in any::<bool>(),
    ) {
        let encoding = if plain { Binary } else { Base64 };
        let format = Format { encoding, closes: false };
        prop_assert!(usize::from(channel) < format.channels());
        let (head, payload) = format.write(channel, bytes.clone().into());
        prop_assert_eq!(head[0], if plain { 0x82 } else { 0x81 });
        let message = [&head[head.len() - 1..], &payload].concat();
        let said = ClientMessage::Data(channel, bytes.into());
        prop_assert_eq!(read(encoding, false, &message), Ok(said.clone()));
        let mut reader = MessageReader::new(format);
        prop_assert_eq!(by_the_byte(&mut reader, &message), Ok(vec![said]));
    }

    #[test]
    fn no_message_makes_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200), plain in any::<bool>(), closes in any::<bool>(),
    ) {
        let _ = read(if plain { Binary } else { Base64 }, closes, &bytes);
    }
}

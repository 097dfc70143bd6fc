//! Messages, row by row, and any message at all.

use bytes::Bytes;
use proptest::prelude::*;
use tokio_tungstenite::tungstenite::Message;

use super::{ClientMessage, Format, Malformed};
use crate::streaming::upgrade::Encoding::{self, Base64, Binary};

fn read(encoding: Encoding, closes: bool, bytes: &[u8]) -> Result<ClientMessage, Malformed> {
    Format { encoding, closes }.read(Message::Binary(Bytes::copy_from_slice(bytes)))
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
    let text = Format { encoding: Base64, closes: false }.read(Message::text("0aGk="));
    assert_eq!(text, data(0, b"hi"));
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
    for bytes in [&b"0a"[..], b"0****", b"\x00aGk=", b" aGk="] {
        assert_eq!(read(Base64, false, bytes), Err(Malformed), "{bytes:?}");
    }
}

#[test]
fn pings_and_closes_say_nothing() {
    let format = Format { encoding: Binary, closes: true };
    for message in [Message::Ping(Bytes::new()), Message::Pong(Bytes::new()), Message::Close(None)]
    {
        assert_eq!(format.read(message), Ok(ClientMessage::Nothing));
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
        let message = format.write(channel, &bytes);
        prop_assert_eq!(message.is_text(), !plain);
        prop_assert_eq!(format.read(message), Ok(ClientMessage::Data(channel, bytes.into())));
    }

    #[test]
    fn no_message_makes_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200), plain in any::<bool>(), closes in any::<bool>(),
    ) {
        let _ = read(if plain { Binary } else { Base64 }, closes, &bytes);
    }
}

//! Tests of valid and invalid WebSocket frames, byte by byte and split into larger pieces.

use bytes::{BufMut, Bytes, BytesMut};
use proptest::{collection::vec, prelude::*};

use super::{Decoder, Frame, LARGEST_PIECE, Malformed, Opcode, put_head};

/// Encodes a client's frame, whose payload is masked.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match payload.len() {
        length @ 0..126 => out.put_u8(0x80 | u8::try_from(length).unwrap()),
        length @ 126..0x1_0000 => {
            out.put_u8(0x80 | 126);
            out.put_u16(u16::try_from(length).unwrap());
        }
        length => {
            out.put_u8(0x80 | 127);
            out.put_u64(length as u64);
        }
    }
    let mask = [1, 2, 3, 250];
    out.extend(mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// Decodes all frames of `bytes`, which arrive in pieces of `portion` bytes. Joins consecutive pieces of a message.
fn read(bytes: &[u8], portion: usize) -> Result<Vec<Frame>, Malformed> {
    let (mut decoder, mut input, mut frames) = (Decoder::default(), BytesMut::new(), Vec::new());
    for portion in bytes.chunks(portion) {
        input.extend_from_slice(portion);
        while let Some(frame) = decoder.next(&mut input)? {
            match (frames.last_mut(), frame) {
                (
                    Some(Frame::Data { bytes: held, last: over @ false, .. }),
                    Frame::Data { bytes, last, .. },
                ) => {
                    assert!(bytes.len() <= LARGEST_PIECE);
                    *held = [&held[..], &bytes].concat().into();
                    *over = last;
                }
                (_, frame) => frames.push(frame),
            }
        }
    }
    Ok(frames)
}

fn binary(bytes: &[u8], last: bool) -> Frame {
    Frame::Data { is_text: false, bytes: Bytes::copy_from_slice(bytes), last }
}

#[test]
fn frames_are_read() {
    let text = Frame::Data { is_text: true, bytes: Bytes::from_static(b"4"), last: true };
    let ping = Frame::Ping(Bytes::from_static(b"x"));
    let fragments = [masked(2, b"ab"), masked(0x89, b"x"), masked(0, b""), masked(0x80, b"c")];
    let cases = [
        (masked(0x82, b"abc"), vec![binary(b"abc", true)]),
        (masked(0x82, b""), vec![binary(b"", true)]),
        (masked(0x81, b"4"), vec![text]),
        (masked(0x89, b"x"), vec![ping.clone()]),
        (masked(0x8a, b"x"), vec![]),
        (masked(0x88, b"\x03\xe8"), vec![Frame::Close(Bytes::from_static(b"\x03\xe8"))]),
        (masked(0x88, b""), vec![Frame::Close(Bytes::new())]),
        (masked(0x88, b"\x0b\xb8x"), vec![Frame::Close(Bytes::from_static(b"\x0b\xb8x"))]),
        (masked(0x88, b"\x13\x87"), vec![Frame::Close(Bytes::from_static(b"\x13\x87"))]),
        (fragments.concat(), vec![binary(b"ab", false), ping, binary(b"c", true)]),
        (masked(0x82, &[7; 70_000]), vec![binary(&[7; 70_000], true)]),
    ];
    for (bytes, frames) in cases {
        for portion in [1, 7, usize::MAX] {
            assert_eq!(read(&bytes, portion), Ok(frames.clone()), "{portion}");
        }
    }
}

#[test]
fn broken_frames_are_refused() {
    let cases = [
        ("without a mask", vec![0x82, 0]),
        ("a reserved bit", masked(0xc2, b"")),
        ("an unknown opcode", masked(0x83, b"")),
        ("an unknown control frame", masked(0x8b, b"")),
        ("a control frame in pieces", masked(0x09, b"")),
        ("a long control frame", masked(0x89, &[0; 126])),
        ("a continuation of nothing", masked(0x80, b"")),
        ("a message within a message", [masked(2, b"a"), masked(0x82, b"b")].concat()),
        ("half a code", masked(0x88, &[3])),
        ("the code 0", masked(0x88, &[0, 0])),
        ("the code 999", masked(0x88, b"\x03\xe7")),
        ("no code as a code", masked(0x88, b"\x03\xed")),
        ("a lost connection as a code", masked(0x88, b"\x03\xee")),
        ("a failed handshake as a code", masked(0x88, b"\x03\xf7why")),
        ("the code 2999", masked(0x88, b"\x0b\xb7")),
        ("the code 5000", masked(0x88, b"\x13\x88")),
        ("an impossible length", [&[0x82, 0xff][..], &[0xff; 12]].concat()),
    ];
    for (name, bytes) in cases {
        assert_eq!(read(&bytes, 1), Err(Malformed), "{name}");
        assert_eq!(read(&bytes, usize::MAX), Err(Malformed), "{name}");
    }
}

#[test]
fn a_message_of_any_length_is_handed_on_in_pieces() {
    let head = [&[0x82, 0xff][..], &(1_u64 << 40).to_be_bytes(), &[0; 4]].concat();
    let (mut decoder, mut input) = (Decoder::default(), BytesMut::from(&head[..]));
    assert_eq!(decoder.next(&mut input), Ok(None));
    for _ in 0..10 {
        input.extend_from_slice(&[5; 40_000]);
        while let Some(frame) = decoder.next(&mut input).unwrap() {
            assert!(matches!(frame, Frame::Data { last: false, .. }));
        }
        assert!(input.is_empty(), "nothing is collected");
    }
}

#[test]
fn heads_are_written() {
    let rows: [(usize, &[u8]); 4] = [
        (0, &[0x82, 0]),
        (125, &[0x82, 125]),
        (126, &[0x82, 126, 0, 126]),
        (65_536, &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
    ];
    for (length, head) in rows {
        let mut out = BytesMut::new();
        put_head(Opcode::Binary, length, &mut out);
        assert_eq!(out, head, "{length}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..300), portion in 1_usize..40) {
        prop_assert_eq!(read(&bytes, usize::MAX).ok(), read(&bytes, portion).ok());
    }
}

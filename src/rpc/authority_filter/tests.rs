//! Tests with encodings of an authority, most of them split into two reads at every byte. Two tests decode the filtered
//! headers with an independent HPACK library.

use httlib_hpack::{Decoder, Encoder};
use proptest::prelude::*;

use super::{AuthorityFilter, CODED_NAME, CONTINUATION, HEADERS, LETTER, NAME, PADDED, PRIORITY};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PATH: &[u8] = b"/run/dockbridge/dockbridge.sock";
const COVERED: &[u8] = b"ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ";

type Header = (Vec<u8>, Vec<u8>);

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
}

/// The filtered bytes of a connection. Fails if the filtered bytes depend on where the input is split into two reads.
fn filtered(frames: &[Vec<u8>]) -> Vec<u8> {
    let sent = [PREFACE, &frames.concat()].concat();
    let mut whole = sent.clone();
    AuthorityFilter::default().overwrite(&mut whole);
    for cut in 0..sent.len() {
        let mut filter = AuthorityFilter::default();
        let mut cut_in_two = sent.clone();
        let (early, late) = cut_in_two.split_at_mut(cut);
        filter.overwrite(early);
        assert_eq!(filter.has_begun(), cut >= PREFACE.len());
        filter.overwrite(late);
        assert_eq!(cut_in_two, whole, "cut at {cut}");
    }
    let mut bytes = sent;
    let mut filter = AuthorityFilter::default();
    bytes.iter_mut().for_each(|byte| filter.overwrite(std::slice::from_mut(byte)));
    assert_eq!(bytes, whole, "byte by byte");
    whole.split_off(PREFACE.len())
}

/// Encodes a text without Huffman code: its length and its bytes.
fn plain(text: &[u8]) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text].concat()
}

fn coded(bytes: &[u8]) -> Vec<u8> {
    [&[0x80 | u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

fn decode(decoder: &mut Decoder<'_>, block: &[u8]) -> Vec<Header> {
    let mut fields = Vec::new();
    decoder.decode(&mut block.to_vec(), &mut fields).unwrap();
    fields.into_iter().map(|(name, value, _)| (name, value)).collect()
}

#[test]
fn each_spelling_of_an_authority_is_overwritten() {
    for (first, name) in [
        (0x41, vec![]),
        (0x01, vec![]),
        (0x11, vec![]),
        (0x40, plain(NAME)),
        (0x00, plain(NAME)),
        (0x10, plain(NAME)),
        (0x40, coded(CODED_NAME)),
        (0x10, coded(CODED_NAME)),
    ] {
        let block = |value: &[u8]| {
            // The header block has POST, a table size, a header with a long index and a header with a literal
            // name before the authority, and one header after it.
            let before = [0x83, 0x3f, 0xe1, 0x1f, 0x0f, 0x01, 2, b'a', b'b', 0, 1, b':', 1, b'c'];
            [&before[..], &[first], &name, &plain(value), &[0x40, 1, b'x', 1, b'y']].concat()
        };
        let seen = filtered(&[frame(HEADERS, 4, &block(PATH)), frame(0, 1, &block(PATH))]);
        let wanted = [frame(HEADERS, 4, &block(COVERED)), frame(0, 1, &block(PATH))].concat();
        assert_eq!(seen, wanted, "{first:x} {name:?}");
    }
}

#[test]
fn a_huffman_coded_authority_becomes_huffman_coded_letters() {
    let flags = Encoder::HUFFMAN_NAME | Encoder::HUFFMAN_VALUE;
    let mut block = Vec::new();
    let field = (NAME.to_vec(), b"%2Frun%2Fdockbridge.sock".to_vec(), flags);
    Encoder::default().encode(field, &mut block).unwrap();
    assert_eq!(block.get(1..10), Some(&*coded(CODED_NAME)).map(|name| &name[..9]));
    let seen = filtered(&[frame(HEADERS, 4, &block)]);
    let seen = decode(&mut Decoder::default(), &seen[9..]);
    assert_eq!(seen, [(NAME.to_vec(), b"ZZZZZZZZZZZZZZZZZZ".to_vec())]);
}

#[test]
fn padding_priority_and_further_frames_are_met() {
    // The first authority is split into three frames. Bytes that look like an authority are also in the padding and
    // the priority.
    let (start, middle, end) = (&PATH[..1], &PATH[1..9], &PATH[9..]);
    let block = |start: &[u8]| [&[0x41, 31][..], start].concat();
    let padded =
        |start: &[u8]| [&[2, 0x41, 1, b'a', 0x41, 0][..], &block(start), &[0x41, 1]].concat();
    let frames = |start: &[u8], middle: &[u8], end: &[u8]| {
        [
            frame(HEADERS, PADDED | PRIORITY, &padded(start)),
            frame(CONTINUATION, 0, middle),
            frame(CONTINUATION, 0, &[]),
            frame(CONTINUATION, 4, end),
            frame(0, 8, &[1, 0x41, 1, b'a']),
            frame(HEADERS, PADDED, &[&[1][..], &block(PATH), &[0]].concat()),
        ]
    };
    let mut wanted = frames(&COVERED[..1], &COVERED[1..9], &COVERED[9..]);
    wanted[5] = frame(HEADERS, PADDED, &[&[1][..], &block(COVERED), &[0]].concat());
    assert_eq!(filtered(&frames(start, middle, end)), wanted.concat());
}

#[test]
fn what_is_no_header_block_passes() {
    for payload in [
        &[][..],
        &[0x41],
        &[0x41, 0],
        &[0x41, 0x7f],
        &[0x41, 0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, b'a'],
        &[0x40, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0xff; 40],
        &[0x3f; 40],
    ] {
        for flags in [4, 4 | PADDED, 4 | PRIORITY, 4 | PADDED | PRIORITY] {
            let frames =
                [frame(HEADERS, flags, payload), frame(6, 0, &[0x41, 1, b'a', 0, 0, 0, 0, 0])];
            assert_eq!(filtered(&frames), frames.concat(), "{payload:?} {flags}");
        }
    }
}

proptest! {
    /// Random requests on one connection. The requests vary the authority, other headers, whether each header
    /// is indexed and Huffman-coded, and how frames and reads are split.
    #[test]
    fn other_headers_arrive_as_they_were_sent(
        requests in prop::collection::vec(
            (
                "[/a-zA-Z0-9%._-]{1,70}",
                prop::collection::vec(("[a-z:-]{1,12}", "[ -~]{0,90}", 0_u8..32), 0..6),
                0_u8..32,
                any::<u8>(),
            ),
            1..8,
        ),
        reads in prop::collection::vec(1_usize..200, 1..20),
    ) {
        let (mut encoder, mut decoder) = (Encoder::with_dynamic_size(300), Decoder::with_dynamic_size(300));
        let mut sent = PREFACE.to_vec();
        let mut expected = Vec::new();
        for (authority, others, flags, shape) in &requests {
            let mut block = Vec::new();
            let mut fields = vec![(NAME.to_vec(), authority.clone().into_bytes(), *flags)];
            fields.extend(others.iter().map(|(name, value, flags)| {
                (name.clone().into_bytes(), value.clone().into_bytes(), *flags)
            }));
            for field in fields.clone() {
                encoder.encode(field, &mut block).unwrap();
            }
            sent.extend(as_frames(&block, *shape));
            expected.push(fields.into_iter().map(|(name, value, _)| (name, value)).collect::<Vec<_>>());
        }
        let (mut filter, mut rest) = (AuthorityFilter::default(), &mut *sent);
        for length in reads.iter().cycle() {
            let (read, later) = rest.split_at_mut((*length).min(rest.len()));
            filter.overwrite(read);
            rest = later;
            if rest.is_empty() { break }
        }
        for (block, expected) in blocks(&sent[PREFACE.len()..]).iter().zip(expected) {
            let seen = decode(&mut decoder, block);
            prop_assert_eq!(seen.len(), expected.len());
            for (seen, expected) in seen.into_iter().zip(expected) {
                if expected.0 == NAME {
                    prop_assert_eq!(seen.0, NAME);
                    prop_assert!(seen.1.iter().all(|byte| *byte == LETTER) && seen.1.len() <= expected.1.len());
                    prop_assert!(http::uri::Authority::try_from(&*seen.1).is_ok());
                } else {
                    prop_assert_eq!(seen, expected);
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut filter = AuthorityFilter::default();
        filter.overwrite(&mut PREFACE.to_vec());
        filter.overwrite(&mut bytes);
    }
}

/// Encodes a header block as frames. The bits of `shape` select padding, a priority, and where the second frame begins.
fn as_frames(block: &[u8], shape: u8) -> Vec<u8> {
    let mut payload = Vec::new();
    let padding = usize::from(shape >> 4);
    if shape & PADDED != 0 {
        payload.push(shape >> 4);
    }
    if shape & PRIORITY != 0 {
        payload.extend([0x41, 1, b'a', 0, 0]);
    }
    let flags = shape & (PADDED | PRIORITY);
    let cut = if shape & 1 == 0 { block.len() } else { usize::from(shape).min(block.len()) };
    payload.extend(&block[..cut]);
    if shape & PADDED != 0 {
        payload.extend(vec![0x41; padding]);
    }
    let mut frames = frame(HEADERS, flags, &payload);
    frames.extend(frame(CONTINUATION, 4, &block[cut..]));
    frames.extend(frame(0, 0, b"A\x0a/not/a/head"));
    frames
}

/// The header blocks in a list of frames. Each block is joined from its frames.
fn blocks(mut frames: &[u8]) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    while let [_, long, short, kind, flags, _, _, _, _, rest @ ..] = frames {
        let (mut payload, rest) = rest.split_at(usize::from(u16::from_be_bytes([*long, *short])));
        if *kind == HEADERS {
            if flags & PADDED != 0 {
                payload = &payload[1..payload.len() - usize::from(payload[0])];
            }
            if flags & PRIORITY != 0 {
                payload = &payload[5..];
            }
            blocks.push(payload.to_vec());
        } else if *kind == CONTINUATION {
            blocks.last_mut().unwrap().extend(payload);
        }
        frames = rest;
    }
    blocks
}

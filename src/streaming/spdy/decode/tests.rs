//! Tests of valid and invalid frames, byte by byte and split into larger pieces.

use bytes::{BufMut, Bytes, BytesMut};
use proptest::{collection::vec, prelude::*};

use super::{
    super::{
        frame::{self, GoAwayReason, Malformed, ResetReason},
        header::{
            CORRUPT,
            tests::{Deflater, hex},
        },
    },
    Decoder, Frame, VERSION_UNKNOWN, WRONG_LENGTH,
};

/// `SYN_STREAM` of stream 1, final, with the headers `port: 80`, `requestid: 0` and `streamtype: error`,
/// compressed by another implementation of zlib.
const OPENING: &str = "80030001 0100003c 00000001 00000000 0000
    78f9e3c6a7c202253a48f95b044aab4c16064092b308125b99a054cc68004e87
    2545a989b9d0a2863515141100000000ffff";

#[test]
fn frames_are_read() {
    let cases: [(&str, &str, &[&str]); 14] = [
        ("open", OPENING, &["open 1 last error"]),
        ("reset", "80030003 00000008 00000005 00000005", &["reset 5"]),
        ("ping", "80030006 00000004 00000009", &["ping 9"]),
        ("ping of the highest number", "80030006 00000004 ffffffff", &["ping 4294967295"]),
        ("settings", "80030004 0000000c 00000001 00000004 00000064", &[]),
        ("settings without an entry", "80030004 00000000", &[]),
        ("go away", "80030007 00000008 00000000 00000000", &[]),
        ("window update", "80030009 00000008 00000001 00010000", &[]),
        ("unknown", "8003000a 01000003 010203 80030006 00000004 00000001", &["ping 1"]),
        ("empty unknown", "80030005 00000000 80030006 00000004 00000001", &["ping 1"]),
        ("data", "00000001 00000003 616263", &["data 1 abc"]),
        ("last data", "00000001 01000003 616263", &["data 1 abc last"]),
        ("an end without data", "00000003 01000000", &["data 3  last"]),
        ("no data", "00000003 00000000 00000003 00000000", &[]),
    ];
    for (name, bytes, frames) in cases {
        assert_eq!(words(&hex(bytes), usize::MAX).unwrap(), frames, "{name}");
        assert_eq!(
            words(&hex(bytes), 1).unwrap(),
            frames.iter().flat_map(|frame| apart(frame)).collect::<Vec<_>>(),
            "{name}, by the byte"
        );
    }
}

#[test]
fn broken_frames_are_refused() {
    let cases: [(&str, Malformed); 13] = [
        ("80020001 00000000", VERSION_UNKNOWN),
        ("ffff0001 00000000", VERSION_UNKNOWN),
        ("80030001 00000009", WRONG_LENGTH),
        ("80030001 00ffffff", WRONG_LENGTH),
        ("80030002 00000003", WRONG_LENGTH),
        ("80030003 00000007", WRONG_LENGTH),
        ("80030003 00000009", WRONG_LENGTH),
        ("80030006 00000005", WRONG_LENGTH),
        ("80030007 00000004", WRONG_LENGTH),
        ("80030008 00000000", WRONG_LENGTH),
        ("80030009 00000000", WRONG_LENGTH),
        ("80030001 0000000a 00000001 00000000 0000", CORRUPT),
        ("80030008 00000006 00000001 abcd", CORRUPT),
    ];
    for (bytes, error) in cases {
        assert_eq!(words(&hex(bytes), usize::MAX).unwrap_err(), error, "{bytes}");
    }
}

#[test]
fn headers_we_have_no_use_for_keep_the_compression_in_step() {
    let mut deflater = Deflater::default();
    let mut bytes = BytesMut::new();
    for code in [2, 8] {
        let block = deflater.deflate(&[("streamtype", &["a value to be referred to"])]);
        control(code, &[0, 0, 0, 9], &block, &mut bytes);
    }
    let block = deflater.deflate(&[("streamtype", &["a value to be referred to"])]);
    assert!(block.len() < 20, "the block refers to what came before");
    control(1, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0], &block, &mut bytes);
    let read = words(&bytes, usize::MAX).unwrap();
    assert_eq!(read, ["open 1 a value to be referred to"]);
}

#[test]
fn large_data_is_handed_on_in_pieces_before_it_is_whole() {
    let mut decoder = Decoder::default();
    let mut input = BytesMut::from(hex("00000001 01ffffff").as_slice());
    let (mut total, mut end) = (0, false);
    while !end {
        input.put_bytes(7, 100_000.min(0x00ff_ffff - total - input.len().saturating_sub(8)));
        while let Some(Frame::Data { bytes, last, .. }) = decoder.next(&mut input).unwrap() {
            assert!((1..=64 * 1024).contains(&bytes.len()));
            total += bytes.len();
            end = last;
        }
        assert!(input.is_empty(), "nothing is held back");
    }
    assert_eq!(total, 0x00ff_ffff);
}

#[test]
fn what_we_write_looks_as_specified() {
    let written = |write: &dyn Fn(&mut BytesMut)| {
        let mut out = BytesMut::new();
        write(&mut out);
        out.freeze()
    };
    let cases: [(Bytes, &str); 6] = [
        (written(&|out| frame::data(5, false, 0x1234, out)), "00000005 00001234"),
        (written(&|out| frame::data(5, true, 0, out)), "00000005 01000000"),
        (written(&|out| frame::ping(7, out)), "80030006 00000004 00000007"),
        (
            written(&|out| frame::reset(3, ResetReason::Cancel, out)),
            "80030003 00000008 00000003 00000005",
        ),
        (
            written(&|out| frame::reset(3, ResetReason::Refused, out)),
            "80030003 00000008 00000003 00000003",
        ),
        (
            written(&|out| frame::go_away(9, GoAwayReason::Broken, out)),
            "80030007 00000008 00000009 00000001",
        ),
    ];
    for (bytes, expected) in cases {
        assert_eq!(bytes, hex(expected));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_and_cuts_do_not_matter(
        bytes in hostile(), cut in 1_usize..40
    ) {
        let (whole, pieces) = (words(&bytes, usize::MAX), words(&bytes, cut));
        prop_assert_eq!(whole.map(joined), pieces.map(joined));
    }

    #[test]
    fn frames_are_read_as_written(
        payloads in vec((1_u32..1000, vec(any::<u8>(), 0..200), any::<bool>()), 0..20),
        cut in 1_usize..40
    ) {
        let mut bytes = BytesMut::new();
        for (id, payload, last) in &payloads {
            frame::data(*id, *last, payload.len(), &mut bytes);
            bytes.put_slice(payload);
            frame::ping(*id, &mut bytes);
        }
        let mut expected = Vec::new();
        for (id, payload, last) in payloads {
            if last || !payload.is_empty() {
                expected.push(describe(Frame::Data { id, bytes: payload.into(), last }));
            }
            expected.push(format!("ping {id}"));
        }
        prop_assert_eq!(joined(words(&bytes, cut).unwrap()), joined(expected));
    }
}

/// Random bytes, or frames with random fields and content.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let head = (prop_oneof![Just(0x80), Just(0)], prop_oneof![Just(3_u8), any::<u8>()]);
    let frame = (head, 0_u8..12, any::<u8>(), 0_u8..24, vec(any::<u8>(), 0..24)).prop_map(
        |((first, version), kind, flags, length, body)| {
            [vec![first, version, 0, kind, flags, 0, 0, length], body].concat()
        },
    );
    prop_oneof![vec(any::<u8>(), 0..200), vec(frame, 0..12).prop_map(|frames| frames.concat())]
}

fn control(code: u8, fields: &[u8], block: &[u8], out: &mut BytesMut) {
    out.put_slice(&[0x80, 3, 0, code]);
    out.put_u32(u32::try_from(fields.len() + block.len()).unwrap());
    out.put_slice(fields);
    out.put_slice(block);
}

/// Decodes bytes that arrive in pieces of `cut` bytes, and describes the frames.
fn words(bytes: &[u8], cut: usize) -> Result<Vec<String>, Malformed> {
    let mut decoder = Decoder::default();
    let mut input = BytesMut::new();
    let mut found = Vec::new();
    for part in bytes.chunks(cut.min(bytes.len().max(1))) {
        input.extend_from_slice(part);
        while let Some(frame) = decoder.next(&mut input)? {
            found.push(describe(frame));
        }
    }
    Ok(found)
}

fn describe(frame: Frame) -> String {
    let end = |last| if last { " last" } else { "" };
    match frame {
        Frame::Open(opening) => {
            let kind = opening.headers.first("streamType").unwrap_or("none");
            format!("open {}{} {kind}", opening.id, end(opening.last))
        }
        Frame::Reset(id) => format!("reset {id}"),
        Frame::Ping(id) => format!("ping {id}"),
        Frame::Data { id, bytes, last } => {
            let text: String = bytes.iter().copied().map(char::from).collect();
            format!("data {id} {text}{}", end(last))
        }
    }
}

/// The descriptions of the pieces of a frame whose bytes arrive one by one.
fn apart(frame: &str) -> Vec<String> {
    match frame {
        "data 1 abc" => ["data 1 a", "data 1 b", "data 1 c"].map(str::to_owned).to_vec(),
        "data 1 abc last" => ["data 1 a", "data 1 b", "data 1 c last"].map(str::to_owned).to_vec(),
        whole => vec![whole.to_owned()],
    }
}

/// Joins consecutive data of a stream until its end.
fn joined(pieces: Vec<String>) -> Vec<String> {
    let mut whole: Vec<String> = Vec::new();
    for piece in pieces {
        let stream = piece.split_inclusive(' ').take(2).collect::<String>();
        let open = whole.last().is_some_and(|before| {
            piece.starts_with("data") && before.starts_with(&stream) && !before.ends_with(" last")
        });
        match (open, whole.last_mut()) {
            (true, Some(before)) => before.push_str(piece.trim_start_matches(&stream)),
            _ => whole.push(piece),
        }
    }
    whole
}

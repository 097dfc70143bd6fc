//! Tests of header blocks: those that zlib writes, invalid ones, and the largest that are allowed.

use bytes::BufMut;
use flate2::{Compress, Compression, FlushCompress, Status};
use proptest::{collection::btree_map, prelude::*};

use super::{
    super::{dictionary, frame::Malformed},
    CORRUPT, Headers, Inflater, TOO_LONG,
};

/// The buffer for a compressed block grows by this many bytes.
const STEP: usize = 4096;

/// Compresses the header blocks of one connection, in their order.
pub(in super::super) struct Deflater {
    state: Compress,
}

impl Default for Deflater {
    fn default() -> Self {
        let mut state = Compress::new(Compression::fast(), true);
        // `set_dictionary` fails only after the first data. dockbridge can also read a block that was
        // compressed without the dictionary.
        let _ = state.set_dictionary(&dictionary::bytes());
        Self { state }
    }
}

impl Deflater {
    /// Encodes and compresses a block. Converts names to lower case, and joins the values of each name.
    pub(in super::super) fn deflate(&mut self, headers: &[(&str, &[&str])]) -> Vec<u8> {
        let plain = plain(headers);
        let mut block = Vec::with_capacity(plain.len() + STEP);
        let mut rest = plain.as_slice();
        loop {
            let before = self.state.total_in();
            let result = self.state.compress_vec(rest, &mut block, FlushCompress::Sync);
            let used = usize::try_from(self.state.total_in() - before).unwrap_or(usize::MAX);
            rest = rest.get(used..).unwrap_or_default();
            let drained = rest.is_empty() && block.len() < block.capacity();
            if drained || !matches!(result, Ok(Status::Ok)) {
                return block;
            }
            block.reserve(STEP);
        }
    }
}

/// Encodes a block without compression.
fn plain(headers: &[(&str, &[&str])]) -> Vec<u8> {
    let mut block = Vec::new();
    block.put_u32(u32::try_from(headers.len()).unwrap_or(u32::MAX));
    for (name, values) in headers {
        for text in [name.to_ascii_lowercase(), values.join("\0")] {
            block.put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// Header blocks of the two streams of a port-forward, which Python's zlib compressed one after the other.
const WRITTEN_BY_ZLIB: [(&str, &str); 2] = [
    (
        "78f9e3c6a7c202253a48f95b044aab4c16064092b308125b99a054cc68004e872545a989b9d0a2863515141100000000ffff",
        "error",
    ),
    ("224b2ba8944a04000000ffff", "data"),
];

#[test]
fn blocks_of_another_zlib_are_read_in_order() {
    let mut inflater = Inflater::default();
    for (block, kind) in WRITTEN_BY_ZLIB {
        let block = inflater.inflate(&hex(block)).unwrap();
        let headers = Headers::parse(&block).unwrap();
        assert_eq!(headers.first("streamType"), Some(kind));
        assert_eq!(headers.first("Port"), Some("80"));
        assert_eq!(headers.first("requestID"), Some("0"));
        assert_eq!(headers.first("absent"), None);
    }
}

#[test]
fn a_stream_without_the_dictionary_is_read_as_well() {
    let mut block = Vec::with_capacity(100);
    let mut deflater = Compress::new(Compression::fast(), true);
    deflater.compress_vec(&plain(&[("a", &["b"])]), &mut block, FlushCompress::Sync).unwrap();
    let block = Inflater::default().inflate(&block).unwrap();
    assert_eq!(Headers::parse(&block).unwrap().first("A"), Some("b"));
}

#[test]
fn names_are_put_in_lower_case_and_values_joined() {
    let block = plain(&[("X-Many", &["one", "two"])]);
    assert!(block.ends_with(b"\0\0\0\x06x-many\0\0\0\x07one\0two"));
    assert_eq!(Headers::parse(&block).unwrap().first("x-many"), Some("one"));
}

#[test]
fn broken_blocks_are_refused() {
    let twice = plain(&[("a", &["1"]), ("a", &["2"])]);
    let mut more = plain(&[("a", &["1"])]);
    more.push(0);
    let cases: [(&[u8], &str); 9] = [
        (b"", "truncated"),
        (b"\0\0\0\x01", "truncated"),
        (b"\0\0\0\x01\0\0\0\x05port", "truncated"),
        (b"\0\0\0\x01\xff\xff\xff\xffport", "truncated"),
        (b"\0\0\0\x01\0\0\0\x01a\0\0\0\x02\xff\xfe", "not UTF-8"),
        (b"\0\0\0\x01\0\0\0\0\0\0\0\x01b", "empty"),
        (b"\0\0\0\x01\0\0\0\x01A\0\0\0\x01b", "upper-case"),
        (&twice, "same name"),
        (&more, "after the last"),
    ];
    for (block, reason) in cases {
        let error = Headers::parse(block).unwrap_err().to_string();
        assert!(error.contains(reason), "{block:?}: {error}");
    }
    let many = Headers::parse(b"\xff\xff\xff\xff").unwrap_err();
    assert_eq!(many, Malformed("too many headers"));
}

#[test]
fn a_block_is_not_inflated_beyond_the_limit() {
    let mut bomb = Vec::with_capacity(200_000);
    let mut deflater = Compress::new(Compression::best(), true);
    let zeros = vec![0; 100_000_000];
    deflater.compress_vec(&zeros, &mut bomb, FlushCompress::Sync).unwrap();
    assert!(bomb.len() < 200_000 && deflater.total_in() == 100_000_000);
    let mut inflater = Inflater::default();
    assert_eq!(inflater.inflate(&bomb).unwrap_err(), TOO_LONG);
    assert!(inflater.0.total_out() <= 1024 + 1);
}

#[test]
fn a_block_may_be_as_long_as_the_limit() {
    for (length, fits) in [(1023, true), (1024, true), (1025, false)] {
        let mut block = Vec::with_capacity(2000);
        let mut deflater = Compress::new(Compression::fast(), true);
        deflater.compress_vec(&vec![7; length], &mut block, FlushCompress::Sync).unwrap();
        assert_eq!(Inflater::default().inflate(&block).is_ok(), fits, "{length}");
    }
}

#[test]
fn what_is_no_zlib_stream_is_refused() {
    let mut ended = Vec::with_capacity(100);
    let mut deflater = Compress::new(Compression::fast(), true);
    deflater.compress_vec(b"end", &mut ended, FlushCompress::Finish).unwrap();
    let mut foreign = Vec::new();
    foreign.put_slice(&hex("78bbdeadbeef"));
    for block in [ended, foreign, b"nonsense".to_vec(), Vec::new()] {
        let error = Inflater::default().inflate(&block).unwrap_err();
        assert_eq!(error, CORRUPT, "{block:?}");
    }
}

pub(in super::super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|digit| !digit.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect()
}

proptest! {
    #[test]
    fn what_is_deflated_is_inflated(
        blocks in prop::collection::vec(btree_map("[a-z:-]{1,9}", "[ -~é]{0,40}", 0..8), 1..6)
    ) {
        let (mut deflater, mut inflater) = (Deflater::default(), Inflater::default());
        for block in blocks {
            let values: Vec<[&str; 1]> = block.values().map(|value| [value.as_str()]).collect();
            let pairs = block.keys().map(String::as_str).zip(values.iter().map(|v| &v[..]));
            let pairs: Vec<(&str, &[&str])> = pairs.collect();
            let inflated = inflater.inflate(&deflater.deflate(&pairs)).unwrap();
            let headers = Headers::parse(&inflated).unwrap();
            prop_assert_eq!(headers.pairs, block.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn no_block_makes_it_panic(block in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Headers::parse(&block);
        let mut inflater = Inflater::default();
        let _ = inflater.inflate(&block);
        let _ = inflater.inflate(&block);
    }
}

//! Messages are complete, however the bytes are split.

use proptest::prelude::*;

use super::*;

const TIME: &str = "2026-11-21T10:00:00.123456789Z";

fn frame(stream: u8, text: &[u8]) -> Vec<u8> {
    let body = [TIME.as_bytes(), b" ", text].concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[stream, 0, 0, 0][..], &length, &body].concat()
}

fn all(tty: bool, pieces: &[&[u8]]) -> Result<Vec<(Source, Vec<u8>)>, &'static str> {
    let mut decoder = Decoder::new(tty);
    let mut out = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        while let Some(message) = decoder.next()? {
            assert_eq!(message.time, TIME);
            out.push((message.source, message.text.to_vec()));
        }
    }
    out.extend(decoder.rest()?.map(|message| (message.source, message.text.to_vec())));
    Ok(out)
}

#[test]
fn frames_name_their_stream() {
    let bytes = [frame(1, b"out\n"), frame(2, b""), frame(2, b"part")].concat();
    let expected = vec![
        (Source::Stdout, b"out\n".to_vec()),
        (Source::Stderr, Vec::new()),
        (Source::Stderr, b"part".to_vec()),
    ];
    assert_eq!(all(false, &[&bytes]).unwrap(), expected);
}

#[test]
fn what_is_no_log_is_refused() {
    assert!(all(false, &[b"{\"message\": \"no\"}"]).is_err());
    assert!(all(false, &[&[3, 0, 0, 0, 0, 0, 0, 1, b'x']]).is_err());
    assert!(all(false, &[&[1, 0, 0, 0, 0xff, 0, 0, 0]]).is_err());
    assert!(all(false, &[&[1, 0, 0, 0, 0, 0, 0, 3, b'a', b' ', b'b']]).is_err());
    assert!(all(true, &[&[b'x'; 100]]).is_err());
}

/// A terminal's text may look like a frame, or like a time.
#[test]
fn a_terminals_lines_are_lines() {
    let (long, tail) = ("x".repeat(BUFFER), format!("\u{1} {TIME} y\r\n"));
    let text =
        format!("{TIME} a\r\n{TIME} \n{TIME} {long}{TIME} {tail}{TIME} {TIME} z\r\n{TIME} end");
    let lines = ["a\r\n", "\n", &long, &tail, &format!("{TIME} z\r\n"), "end"];
    let expected: Vec<_> =
        lines.iter().map(|line| (Source::Stdout, line.as_bytes().to_vec())).collect();
    assert_eq!(all(true, &[text.as_bytes()]).unwrap(), expected);
}

proptest! {
    #[test]
    fn cuts_make_no_difference(
        texts in prop::collection::vec((1_u8..3, prop::collection::vec(any::<u8>(), 0..40)), 0..20),
        size in 1_usize..50,
    ) {
        let bytes: Vec<u8> = texts.iter().flat_map(|(stream, text)| frame(*stream, text)).collect();
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        prop_assert_eq!(all(false, &pieces), all(false, &[&bytes]));
        prop_assert_eq!(all(false, &pieces).unwrap().len(), texts.len());
    }

    #[test]
    fn cuts_make_no_difference_to_a_terminal(
        lengths in prop::collection::vec(0_usize..3 * BUFFER, 0..6),
        size in 1_usize..40_000,
    ) {
        let mut text = String::new();
        let mut expected = Vec::new();
        for length in lengths {
            let line = format!("{}\r\n", "y".repeat(length));
            for part in line.as_bytes().chunks(BUFFER) {
                text.push_str(TIME);
                text.push(' ');
                text.push_str(std::str::from_utf8(part).unwrap());
                expected.push((Source::Stdout, part.to_vec()));
            }
        }
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        prop_assert_eq!(all(true, &pieces).unwrap(), expected);
    }

    #[test]
    fn no_bytes_make_it_panic(tty: bool, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut decoder = Decoder::new(tty);
        decoder.feed(&bytes);
        while let Ok(Some(_)) = decoder.next() {}
        let _ = decoder.rest();
    }
}

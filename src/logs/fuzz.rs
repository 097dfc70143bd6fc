//! Entry points for `make fuzz`: log files of the engine, ends of CRI files, and saved positions in logs.

use super::{
    convert::{Buffers, Converted, convert},
    cri_tail, entry, position_store,
};
use crate::{fuzz_input::portions, model::stream::Source};

/// `bytes` are a log file of the engine. Converting the file at once or in pieces must give the same lines,
/// all in CRI form. If both `entry::quick` and a JSON parser can read an entry, both must find the same values.
pub(crate) fn json(bytes: &[u8]) {
    let whole = converted(&[bytes]);
    assert_eq!(whole, converted(&portions(bytes)), "the cut changed the lines");
    let (output, _) = whole;
    for line in output.split_inclusive(|byte| *byte == b'\n') {
        let mut words = line.splitn(4, |byte| *byte == b' ');
        let [time, stream, tag, text] = [(); 4].map(|()| words.next().unwrap_or_default());
        assert!(entry::is_time(time));
        assert!(matches!((stream, tag), (b"stdout" | b"stderr", b"P" | b"F")));
        assert!(text.len() <= super::line::PART + 1 && text.ends_with(b"\n"));
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let (quick, tolerant) = (entry::quick(line, &mut one), entry::tolerant(line, &mut other));
        if let (Some(quick), Some(tolerant)) = (quick, tolerant) {
            assert_eq!((quick.time, quick.stream), (tolerant.time, tolerant.stream));
            assert_eq!(quick.full, tolerant.full);
            assert_eq!(quick.plain.unwrap_or(&one), tolerant.plain.unwrap_or(&other));
        }
    }
}

/// The CRI lines that are converted from the pieces of a file, and how many of the file's lines could not be parsed.
fn converted(portions: &[&[u8]]) -> (Vec<u8>, u64) {
    let (mut buffers, mut rest) = (Buffers::default(), Vec::new());
    let (mut output, mut lost) = (Vec::new(), 0);
    for (index, portion) in portions.iter().chain([&&b""[..]]).enumerate() {
        rest.extend_from_slice(portion);
        buffers.input(rest.len()).copy_from_slice(&rest);
        let Converted { consumed, unreadable, .. } =
            convert(&mut buffers, rest.len(), index == portions.len(), None);
        let consumed = usize::try_from(consumed).unwrap_or(usize::MAX);
        assert!(consumed <= rest.len());
        rest.drain(..consumed);
        output.extend_from_slice(&buffers.output);
        lost += unreadable;
    }
    assert!(rest.is_empty(), "the last piece is read whole");
    (output, lost)
}

/// Reads `bytes` both as the end of a CRI file and as saved positions. Other programs may have written to the CRI
/// file and to the file with the positions.
pub(crate) fn ends(bytes: &[u8]) {
    for part in bytes.split(|byte| *byte == 0) {
        let Some(saved) = position_store::decode(part) else { continue };
        let written = serde_json::to_vec(&saved).unwrap_or_default();
        assert_eq!(position_store::decode(&written), Some(saved));
    }
    let ends = [true, false].into_iter().filter_map(|whole| cri_tail::last_in(bytes, whole));
    if let Some(mut both) = ends.reduce(cri_tail::Written::and_older) {
        assert!(!both.is_empty(), "an end without an entry");
        for line in bytes.split(|byte| *byte == b'\n') {
            let time = line.split(|byte| *byte == b' ').next().unwrap_or_default();
            let Ok(time) = std::str::from_utf8(time) else { continue };
            let entry = entry::LogEntry { time, stream: Source::Stdout, text: b"text", full: true };
            let _ = both.covers(&entry, 1);
        }
    }
}

//! Entry points for `make fuzz`: answers of an engine other than inspects and lists. These are framed
//! output, endless answers, error texts and archives.

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode, header::HeaderValue};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{
    archive,
    demux::{Demux, Stop},
    error::{Call, Subject},
    error_response, images,
    json_cutter::{Form, JsonCutter},
    pull,
};
use crate::{
    error::WithKind,
    fuzz_input::{portions, texts},
    model::{engine::ApiVersion, stream::Source},
    translate::observe,
    wire::docker,
};

/// Output of an exec or attach. Any split gives the same result, and never more than was sent.
pub(crate) fn demux(bytes: &[u8]) {
    for tty in [false, true] {
        let (whole, cut) = (output(tty, vec![bytes]), output(tty, portions(bytes)));
        assert_eq!(whole, cut, "the cut changed the output");
        let [stdout, stderr] = &whole.0;
        assert!(stdout.len() + stderr.len() <= bytes.len());
        assert!(!tty || stdout == bytes, "a terminal's output comes as it is");
    }
}

fn output(tty: bool, portions: Vec<&[u8]>) -> ([Vec<u8>; 2], Option<Stop>, bool) {
    let mut demux = Demux::new(tty);
    let [mut stdout, mut stderr] = [Vec::new(), Vec::new()];
    for portion in portions {
        demux.pending.extend_from_slice(portion);
        loop {
            match demux.next() {
                Ok(Some((Source::Stdout, bytes))) => stdout.extend_from_slice(&bytes),
                Ok(Some((Source::Stderr, bytes))) => stderr.extend_from_slice(&bytes),
                Ok(None) => break,
                Err(stop) => return ([stdout, stderr], Some(stop), false),
            }
        }
    }
    let over = demux.is_between_frames();
    ([stdout, stderr], None, over)
}

/// A sequence of JSON objects. Any split gives the objects that a simple parser finds in each line.
pub(crate) fn messages(bytes: &[u8]) {
    assert_messages::<docker::Event>(bytes);
    let _ = streamed::<docker::Progress>(portions(bytes));
}

fn assert_messages<T: DeserializeOwned + std::fmt::Debug>(bytes: &[u8]) {
    // A value that continues after a line break is skipped unless it arrived in one piece.
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let cut = streamed::<T>(lines.clone().flat_map(portions).collect());
    // The end of a number is only known from what follows it. No engine sends a bare number.
    let Some(plain) = lines.map(of_line).collect::<Option<Vec<Vec<T>>>>() else { return };
    let plain: Vec<T> = plain.into_iter().flatten().collect();
    assert_eq!(format!("{cut:?}"), format!("{plain:?}"));
}

/// The objects of a line up to the first value that is not an object. None if the line has an unreadable
/// object: readers disagree where it ends, so there is nothing to compare with.
fn of_line<T: DeserializeOwned>(line: &[u8]) -> Option<Vec<T>> {
    let (mut rest, mut found) = (line, Vec::new());
    loop {
        rest = rest.trim_ascii_start();
        if rest.first() != Some(&b'{') {
            return Some(found);
        }
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
        let Some(Ok(_)) = values.next() else { return None };
        let (value, behind) = rest.split_at_checked(values.byte_offset()).unwrap_or_default();
        found.extend(serde_json::from_slice::<T>(value).ok());
        rest = behind;
    }
}

fn streamed<T: DeserializeOwned>(portions: Vec<&[u8]>) -> Vec<T> {
    let mut cutter = JsonCutter::new(Form::Messages);
    let mut found = Vec::new();
    for portion in portions {
        let mut bytes = Bytes::copy_from_slice(portion);
        while let Some(cut) = cutter.next(&mut bytes) {
            found.extend(cut.value.ok());
        }
    }
    found
}

/// Other answers: the engine's data, images, progress, errors and archives.
pub(crate) fn answers(bytes: &[u8]) {
    let call = || Call { verb: "fuzz", subject: Subject::Container("c".to_owned()) };
    for status in [400, 404, 409, 500] {
        let status = StatusCode::from_u16(status).unwrap_or_default();
        let error = error_response::classify(call(), status, bytes);
        let _ = (error.kind(), error.to_string());
    }
    let text = String::from_utf8_lossy(bytes);
    let _ = error_response::classify_pull("docker.io/library/a:b", &text);
    let _ = text.parse::<ApiVersion>();
    if let Ok(file) = archive::first_file(bytes) {
        assert!(file.len() < bytes.len());
    }
    if let Ok(stat) = HeaderValue::from_bytes(bytes) {
        let mut headers = HeaderMap::new();
        headers.insert(archive::STAT, stat);
        let _ = archive::kind(&call(), &headers);
    }
    for text in texts(bytes) {
        if let Ok(info) = serde_json::from_str::<docker::Info>(text) {
            let version = serde_json::from_str(text).unwrap_or_default();
            let _ = observe::engine::observe(&version, &info, ApiVersion::OLDEST);
        }
        if let Ok(image) = serde_json::from_str::<docker::ImageInspect>(text) {
            let _ = observe::image::observe(&image);
        }
        let _ = serde_json::from_str::<images::Usage>(text);
        let _ = serde_json::from_str::<docker::Progress>(text).map(pull::progress);
    }
}

//! Entry points for `make fuzz` with answers of the engine: framed output, messages, the splitting of lists,
//! error texts, archives and JSON. `translate::fuzz` has the entry points for containers.

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode, header::HeaderValue};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{
    archive,
    client::object,
    demux::{Demux, Stop},
    error::{Call, Subject},
    error_response, images,
    list_splitter::ListSplitter,
    pull,
    stream::Lines,
};
use crate::{
    error::WithKind,
    fuzz_input::{portions, texts},
    model::{engine::ApiVersion, stream::Source},
    translate::observe,
    wire::docker,
};

/// `bytes` are the output of an exec or attach. However the bytes are split into pieces, the demultiplexed
/// output must be the same, and never longer than `bytes`.
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

/// `bytes` are messages or a list. However `bytes` are split, the result must be the same as a simple parser's. A
/// list that the simple parser cannot read may have any result.
pub(crate) fn messages(bytes: &[u8]) {
    assert_messages::<docker::Event>(bytes);
    assert_messages::<docker::Progress>(bytes);
    assert_list(bytes);
}

fn assert_messages<T: DeserializeOwned + std::fmt::Debug>(bytes: &[u8]) {
    let mut lines = Lines::default();
    let mut found = Vec::new();
    for portion in portions(bytes).into_iter().chain([&b"\n"[..]]) {
        let mut input = Bytes::copy_from_slice(portion);
        while let Some(line) = lines.next(&mut input) {
            found.push(line.and_then(|line| object::<T>(&line)));
        }
    }
    let ended = [bytes, b"\n"].concat();
    let lines = ended.split_inclusive(|byte| *byte == b'\n');
    let plain: Vec<_> =
        lines.filter(|line| !line.trim_ascii().is_empty()).map(object::<T>).collect();
    assert_eq!(format!("{found:?}"), format!("{plain:?}"));
}

fn assert_list(bytes: &[u8]) {
    let mut splitter = ListSplitter::new(bytes.len());
    let mut found = Vec::new();
    for portion in portions(bytes) {
        let mut input = Bytes::copy_from_slice(portion);
        while let Some(entry) = splitter.next(&mut input) {
            found.extend(entry);
        }
    }
    if let Ok(plain) = serde_json::from_slice::<Vec<&RawValue>>(bytes) {
        let found = found.iter().map(|entry| entry.trim_ascii());
        assert!(found.eq(plain.iter().map(|entry| entry.get().as_bytes())));
        assert!(splitter.is_complete());
    }
}

/// `bytes` are an answer: data of the engine or of an image, progress, an error or an archive.
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

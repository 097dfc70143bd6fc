//! Paths and queries of engine calls, built so that no name can turn one call into another.
//!
//! The engine's router decodes a path and then cleans it, so an image named `../../containers/x` would
//! become another call. Such names are refused here, and all other bytes are percent-encoded.

use std::{os::unix::ffi::OsStrExt, path::Path};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::model::reference::printable;

/// The authority with which the connector finds the socket: its path in hexadecimal.
pub(super) fn authority(socket: &Path) -> String {
    hex::encode(socket.as_os_str().as_bytes())
}

/// `/containers/<id><tail>`. None if no object can have this id.
pub(super) fn container(id: &str, tail: &str) -> Option<String> {
    plain(id).then(|| format!("/containers/{id}{tail}"))
}

/// `/exec/<id><tail>`. None if no object can have this id.
pub(super) fn exec(id: &str, tail: &str) -> Option<String> {
    plain(id).then(|| format!("/exec/{id}{tail}"))
}

/// `/images/<name><tail>`. None if the name is impossible. The engine repeats names in its errors, so a
/// name that contains a password is not sent.
pub(super) fn image(name: &str, tail: &str) -> Option<String> {
    let known =
        name.len() <= LONGEST_NAME && name.split('/').all(is_step) && printable(name) == name;
    known.then(|| format!("/images/{}{tail}", utf8_percent_encode(name, IMAGE)))
}

/// `path?key=value&…`.
pub(super) fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut text = path.to_owned();
    for (index, (key, value)) in pairs.iter().enumerate() {
        text.push(if index == 0 { '?' } else { '&' });
        text.push_str(key);
        text.push('=');
        text.extend(utf8_percent_encode(value, QUERY));
    }
    text
}

/// Whether a container or exec can have this id or name.
fn plain(id: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    id.len() <= LONGEST_NAME && id.bytes().all(plain) && is_step(id)
}

/// Whether the text can be one part of a path.
fn is_step(text: &str) -> bool {
    !matches!(text, "" | "." | "..")
}

/// Bytes that are escaped in the value of a query.
pub(super) const QUERY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Bytes that are escaped in an image's name.
const IMAGE: &AsciiSet = &QUERY.remove(b'/').remove(b':').remove(b'@');
/// Longer than a reference with a long registry, repository, tag and digest.
const LONGEST_NAME: usize = 1024;

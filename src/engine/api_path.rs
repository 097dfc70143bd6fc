//! Paths and queries of calls to the engine. An object's name cannot turn a call into another call.
//!
//! The engine's router decodes a path, resolves `..` and redirects to the result, so the image name
//! `../../containers/x` would lead to another object. So this module refuses names with an empty segment or a
//! segment `.` or `..`, and encodes names of images.

use std::{os::unix::ffi::OsStrExt, path::Path};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::model::reference::printable;

/// The URL authority from which the connector reads the path of the engine's socket: the path in hexadecimal.
pub(super) fn authority(socket: &Path) -> String {
    hex::encode(socket.as_os_str().as_bytes())
}

/// Returns `/containers/<id><tail>`. None if the id or name is empty, `.`, `..` or longer than [`LONGEST_NAME`],
/// or has a character other than ASCII letters, digits, `_`, `.` and `-`.
pub(super) fn container(id: &str, tail: &str) -> Option<String> {
    is_valid_id(id).then(|| format!("/containers/{id}{tail}"))
}

/// Returns `/exec/<id><tail>`. None for the ids for which [`container`] returns None.
pub(super) fn exec(id: &str, tail: &str) -> Option<String> {
    is_valid_id(id).then(|| format!("/exec/{id}{tail}"))
}

/// Returns `/images/<name><tail>`. None if the name is longer than [`LONGEST_NAME`], has an empty segment or a
/// segment `.` or `..`, or may contain a password, which the engine would repeat in its errors.
pub(super) fn image(name: &str, tail: &str) -> Option<String> {
    let is_valid = name.len() <= LONGEST_NAME
        && name.split('/').all(is_path_segment)
        && printable(name) == name;
    is_valid.then(|| format!("/images/{}{tail}", utf8_percent_encode(name, IMAGE)))
}

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

fn is_valid_id(id: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    id.len() <= LONGEST_NAME && id.bytes().all(is_allowed) && is_path_segment(id)
}

fn is_path_segment(text: &str) -> bool {
    !matches!(text, "" | "." | "..")
}

/// Bytes that are percent-encoded in the value of a query.
pub(super) const QUERY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Bytes that are percent-encoded in an image's name.
const IMAGE: &AsciiSet = &QUERY.remove(b'/').remove(b':').remove(b'@');
/// The size limit of an object's name in bytes. The longest names, image references, are shorter.
const LONGEST_NAME: usize = 1024;

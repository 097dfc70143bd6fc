//! Requirements for texts that become part of a path, a label, a name or an environment.

use std::collections::BTreeMap;

use super::error::{At, ParseError};

/// The text, if it is valid. Otherwise the error says how it is wrong.
pub(in crate::translate) fn checked(
    is_valid: bool,
    reason: &str,
    text: &str,
) -> Result<String, ParseError> {
    if is_valid {
        return Ok(text.to_owned());
    }
    Err(ParseError::invalid(format!("{reason}: {}", quoted(text))))
}

/// Any text without NUL bytes, at which the kernel would end it.
pub(super) fn plain(text: &str) -> Result<String, ParseError> {
    ParseError::unless(!text.contains('\0'), "must not contain a NUL byte")?;
    Ok(text.to_owned())
}

/// The same, but not empty.
pub(super) fn required(text: &str) -> Result<String, ParseError> {
    if text.is_empty() { Err(ParseError::missing()) } else { plain(text) }
}

/// A text on one line.
pub(in crate::translate) fn line(text: &str) -> Result<String, ParseError> {
    checked(!text.chars().any(char::is_control), "must not contain control characters", text)
}

/// One word: not empty, without spaces and control characters.
pub(super) fn word(text: &str) -> Result<String, ParseError> {
    let is_one = !text.is_empty() && !text.chars().any(char::is_whitespace);
    checked(is_one, "must be one word", text).and_then(|text| line(&text))
}

/// A part of a Docker container name. kubelet's names are always valid.
pub(super) fn name(text: &str) -> Result<String, ParseError> {
    if text.is_empty() {
        return Err(ParseError::missing());
    }
    ParseError::unless(text.len() <= MAX_NAME, format!("is longer than {MAX_NAME} bytes"))?;
    let valid = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    checked(valid, "may contain only letters, digits, '-', '_' and '.'", text)
}

/// An absolute path without `..`.
pub(super) fn path(text: &str) -> Result<String, ParseError> {
    absolute(text).and_then(|path| no_parent(&path))
}

/// An absolute path that is resolved inside a container, where `..` cannot lead outside.
pub(super) fn absolute(text: &str) -> Result<String, ParseError> {
    if text.is_empty() {
        return Err(ParseError::missing());
    }
    checked(text.starts_with('/'), "must be an absolute path", text).and_then(|text| plain(&text))
}

/// Refuses `..` as a path component.
pub(super) fn no_parent(text: &str) -> Result<String, ParseError> {
    checked(!text.split('/').any(|component| component == ".."), "must not contain '..'", text)
}

/// Annotations, unchanged. They are only used in JSON and in answers, so their values may contain anything.
pub(super) fn annotations(
    map: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ParseError> {
    map.keys().try_for_each(|key| required(key).map(drop).at(format_args!("[{}]", quoted(key))))?;
    Ok(map.clone())
}

/// Labels and similar pairs, unchanged.
pub(in crate::translate) fn pairs(
    map: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ParseError> {
    map.iter()
        .map(|(key, value)| {
            let key = required(key).at(format_args!("[{}]", quoted(key)))?;
            let value = plain(value).at(format_args!("[{}]", quoted(&key)))?;
            Ok((key, value))
        })
        .collect()
}

/// A list whose elements are parsed by one function. An error contains the index.
pub(in crate::translate) fn each<T, U>(
    items: &[T],
    read: impl Fn(&T) -> Result<U, ParseError>,
) -> Result<Vec<U>, ParseError> {
    items.iter().enumerate().map(|(at, item)| read(item).at(format_args!("[{at}]"))).collect()
}

/// The text in quotes, cut after [`EXCERPT`] characters, to keep errors short.
pub(in crate::translate) fn quoted(text: &str) -> String {
    let beginning: String = text.chars().take(EXCERPT).collect();
    let dots = if beginning.len() < text.len() { "…" } else { "" };
    format!("{beginning:?}{dots}")
}

const MAX_NAME: usize = 253;
const EXCERPT: usize = 80;

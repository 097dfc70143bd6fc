//! Checks texts that become part of a path, a label, a name or an environment.

use std::collections::BTreeMap;

use super::error::{At, ParseError};

/// Returns the text if `is_valid`, and otherwise fails with the reason and the beginning of the text.
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

/// Refuses a text with a NUL byte, at which the kernel would end the text.
pub(super) fn plain(text: &str) -> Result<String, ParseError> {
    ParseError::unless(!text.contains('\0'), "must not contain a NUL byte")?;
    Ok(text.to_owned())
}

/// Refuses an empty text, and a text with a NUL byte.
pub(super) fn required(text: &str) -> Result<String, ParseError> {
    if text.is_empty() { Err(ParseError::missing()) } else { plain(text) }
}

/// Refuses a text with control characters, such as line breaks.
pub(in crate::translate) fn line(text: &str) -> Result<String, ParseError> {
    checked(!text.chars().any(char::is_control), "must not contain control characters", text)
}

/// Refuses a text that is empty or contains spaces or control characters.
pub(super) fn word(text: &str) -> Result<String, ParseError> {
    let is_one = !text.is_empty() && !text.chars().any(char::is_whitespace);
    checked(is_one, "must be one word", text).and_then(|text| line(&text))
}

/// Checks a text that becomes part of a Docker container name.
pub(super) fn name(text: &str) -> Result<String, ParseError> {
    if text.is_empty() {
        return Err(ParseError::missing());
    }
    ParseError::unless(text.len() <= MAX_NAME, format!("is longer than {MAX_NAME} bytes"))?;
    let valid = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    checked(valid, "may contain only ASCII letters, digits, '-', '_' and '.'", text)
}

/// Refuses a path that is not absolute, has a component `..`, or contains a NUL byte.
pub(super) fn path(text: &str) -> Result<String, ParseError> {
    absolute(text).and_then(|path| no_parent(&path))
}

/// Refuses a path that is not absolute or contains a NUL byte. Allows `..`, for paths in a container, where `..`
/// cannot lead out of the container.
pub(super) fn absolute(text: &str) -> Result<String, ParseError> {
    if text.is_empty() {
        return Err(ParseError::missing());
    }
    checked(text.starts_with('/'), "must be an absolute path", text).and_then(|text| plain(&text))
}

/// Refuses `..` as a path component.
pub(super) fn no_parent(text: &str) -> Result<String, ParseError> {
    checked(
        !text.split('/').any(|component| component == ".."),
        "must not have the component '..'",
        text,
    )
}

/// Returns annotations unchanged. Refuses keys that are empty or have a NUL byte. Values may contain any
/// character, because they appear only in JSON and in messages to CRI clients and NRI plugins.
pub(super) fn annotations(
    map: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ParseError> {
    map.keys().try_for_each(|key| required(key).map(drop).at(format_args!("[{}]", quoted(key))))?;
    Ok(map.clone())
}

/// Returns labels and similar pairs unchanged. Refuses empty keys, and keys and values with a NUL byte.
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

/// Parses each element of a list with `read`. An error contains the index of the element.
pub(in crate::translate) fn each<T, U>(
    items: &[T],
    read: impl Fn(&T) -> Result<U, ParseError>,
) -> Result<Vec<U>, ParseError> {
    items.iter().enumerate().map(|(at, item)| read(item).at(format_args!("[{at}]"))).collect()
}

/// The text in quotes, cut after [`EXCERPT`] characters to keep errors short.
pub(in crate::translate) fn quoted(text: &str) -> String {
    let beginning: String = text.chars().take(EXCERPT).collect();
    let dots = if beginning.len() < text.len() { "…" } else { "" };
    format!("{beginning:?}{dots}")
}

const MAX_NAME: usize = 253;
const EXCERPT: usize = 80;

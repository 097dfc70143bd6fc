//! The configuration file: flat TOML whose keys are the names of the settings. An unknown key in the file is an error,
//! so that a mistyped setting is not silently ignored.

use std::{borrow::Cow, path::Path};

use toml::de::{DeTable, DeValue};

use super::{
    error::ConfigError,
    key::Key,
    raw::{RawValue, Source},
};
use crate::host::file;

/// Reads and parses the configuration file.
///
/// # Errors
/// The file cannot be read, is not TOML, or contains an unknown key or a value of a wrong type.
pub fn read(path: &Path) -> Result<Vec<RawValue>, ConfigError> {
    let text = file::read_text(path, SIZE_LIMIT)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse(path, &text)
}

/// Parses the text of the configuration file at `path`.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<RawValue>, ConfigError> {
    let wrong = |line, message| ConfigError::File { path: path.to_owned(), line, message };
    let table = DeTable::parse(text).map_err(|error| {
        let line = line_at(text, error.span().map_or(0, |span| span.start));
        wrong(line, error.message().to_owned())
    })?;
    let entries = table.into_inner().into_iter();
    entries
        .map(|(name, value)| {
            let (line, name) = (line_at(text, name.span().start), name.as_ref());
            let key = Key::from_name(name).ok_or_else(|| {
                let known = Key::ALL.map(Key::name).join(", ");
                wrong(line, format!("unknown setting {name:?}; known settings: {known}"))
            })?;
            let text = value_text(value.get_ref()).ok_or_else(|| {
                wrong(line, format!("{name} must be a string in quotes or a list of strings"))
            })?;
            Ok(RawValue { key, text, source: Source::File { path: path.to_owned(), line } })
        })
        .collect()
}

/// A TOML value as the text of a setting: a string as it is, a list of strings joined by commas.
fn value_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(Cow::as_ref(text).to_owned()),
        DeValue::Array(items) => {
            let texts: Option<Vec<_>> = items.iter().map(|item| item.get_ref().as_str()).collect();
            Some(texts?.join(","))
        }
        _ => None,
    }
}

/// The number of the line that holds the byte at `offset`, counted from 1.
fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// The size limit of the configuration file in bytes, which is much larger than a file with all settings.
const SIZE_LIMIT: u64 = 1 << 20;

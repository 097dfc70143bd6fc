//! Ids in requests, which may have any characters. Each CRI call decides what an unknown id means.

use super::error::{At, ParseError};

/// The id of a sandbox or container in a request. Refuses an empty id.
pub fn object_id(field: &'static str, text: &str) -> Result<String, ParseError> {
    if text.is_empty() { Err(ParseError::missing()).at(field) } else { Ok(text.to_owned()) }
}

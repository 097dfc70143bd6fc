//! Ids in requests. An id with odd characters is merely one that nothing has; each verb knows
//! what an unknown object means to it.

use super::{
    error::{At, ParseError},
    text,
};

/// The id of a sandbox or container a verb is asked for.
///
/// # Errors
/// Refuses the empty id: no object could be meant.
pub fn object_id(field: &'static str, text: &str) -> Result<String, ParseError> {
    if text.is_empty() { Err(ParseError::missing()).at(field) } else { Ok(text.to_owned()) }
}

/// The container whose processes another one wants to see.
pub(super) fn target_id(text: &str) -> Result<String, ParseError> {
    text::word(text)
}

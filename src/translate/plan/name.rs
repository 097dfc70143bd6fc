//! Container names that the engine accepts.

use super::error::{MAX_NAME, PlanError};

/// The name, if the engine accepts it.
pub(super) fn checked(name: String) -> Result<String, PlanError> {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    if plain && name.len() <= MAX_NAME {
        Ok(name)
    } else {
        Err(PlanError::Name { start: name.chars().take(EXCERPT).collect() })
    }
}

/// How much of a refused name an error repeats.
const EXCERPT: usize = 80;

//! `null` in JSON and YAML. Programs in Go write it for empty maps, lists and pointers, and read it as if
//! the field were absent, so it means the default in everything that a peer sends. They cannot write it
//! for a text, a number or a bool that is not behind a pointer.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the default; to be combined with `default`, for absent fields.
pub fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

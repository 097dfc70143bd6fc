//! `null` in JSON and YAML. Programs in Go write `null` for nil maps, slices and pointers, and read it as if the field
//! were absent. With [`nullable`], dockbridge reads `null` in the same way.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the default. Use it together with serde's `default`, which handles absent fields.
pub fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

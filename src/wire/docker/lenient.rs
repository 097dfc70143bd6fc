//! Reading fields of an answer that may have a form we do not know.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// Reads `null`, and values of an unknown form, as the default. A list is one answer for all objects, so
/// it must not fail for one field of one object.
pub(super) fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + DeserializeOwned,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Reads labels, or another map of strings, one by one. Skips values that are not strings, so that the
/// others still identify a container. Returns an empty map for any other type.
pub(super) fn labels<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    let Value::Object(labels) = Value::deserialize(deserializer)? else {
        return Ok(BTreeMap::new());
    };
    let text = |(key, value)| match value {
        Value::String(text) => Some((key, text)),
        _ => None,
    };
    Ok(labels.into_iter().filter_map(text).collect())
}

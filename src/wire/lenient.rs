//! Reads fields whose type may be unexpected.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// Reads `null` and unexpected types as the default: one field must not make a whole list or file fail.
pub fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + DeserializeOwned,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Reads a map of strings, such as labels. Skips values that are not strings, so that the other labels still identify a
/// container. If the field is not a map, the result is an empty map.
pub fn labels<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
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

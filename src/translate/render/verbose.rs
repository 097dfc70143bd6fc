//! Renders the free-form part of verbose answers: a map from a topic to JSON text.

use std::collections::BTreeMap;

use serde_json::Value;

/// A map with `document` under the usual topic, `info`.
pub(super) fn info(document: &Value) -> BTreeMap<String, String> {
    BTreeMap::from([("info".to_owned(), document.to_string())])
}

/// Converts a part of a document to JSON. Returns null if this fails, so that the whole answer does not fail.
pub(super) fn json_or_null(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

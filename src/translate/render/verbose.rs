//! The free-form part of verbose answers: a map from a topic to JSON text.

use std::collections::BTreeMap;

use serde_json::Value;

/// The usual single topic.
pub(super) fn info(document: &Value) -> BTreeMap<String, String> {
    BTreeMap::from([("info".to_owned(), document.to_string())])
}

/// A part of a document. If it cannot be written as JSON, it is left out, so that a read does not fail.
pub(super) fn part(of: &impl serde::Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

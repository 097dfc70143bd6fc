//! Finds objects and lists in a `config.json`, and creates those that are missing.

use serde_json::{Map, Value, json};

use super::error::OciRuntimeError;

/// The object at a path of keys, which is created if missing.
pub(super) fn object<'a>(
    document: &'a mut Value,
    keys: &[&str],
) -> Result<&'a mut Map<String, Value>, OciRuntimeError> {
    let key = keys.last().copied().unwrap_or("document");
    member(document, keys, json!({}))?.as_object_mut().ok_or_else(|| wrong_type("an object", key))
}

/// The list at a path of keys, which is created if missing.
pub(super) fn list<'a>(
    document: &'a mut Value,
    keys: &[&str],
) -> Result<&'a mut Vec<Value>, OciRuntimeError> {
    let key = keys.last().copied().unwrap_or("document");
    member(document, keys, json!([]))?.as_array_mut().ok_or_else(|| wrong_type("a list", key))
}

fn member<'a>(
    document: &'a mut Value,
    keys: &[&str],
    missing: Value,
) -> Result<&'a mut Value, OciRuntimeError> {
    let Some((key, parents)) = keys.split_last() else { return Ok(document) };
    let value = object(document, parents)?.entry(*key).or_insert(Value::Null);
    if value.is_null() {
        *value = missing;
    }
    Ok(value)
}

/// Whether the member `key` of an object is this text.
pub(super) fn is_text(value: &Value, key: &str, text: &str) -> bool {
    value.get(key).and_then(Value::as_str) == Some(text)
}

pub(super) fn wrong_type(kind: &str, key: &str) -> OciRuntimeError {
    OciRuntimeError::Edit(format!("{key} is not {kind}"))
}

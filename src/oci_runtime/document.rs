//! Finds objects and lists in a `config.json`, and creates those that are missing.

use serde_json::{Map, Value, json};

use super::error::OciRuntimeError;

/// The object at a path of keys, which is created if missing.
pub(super) fn object<'a>(
    document: &'a mut Value,
    keys: &[&str],
) -> Result<&'a mut Map<String, Value>, OciRuntimeError> {
    let place = keys.last().copied().unwrap_or("document");
    member(document, keys, json!({}))?.as_object_mut().ok_or_else(|| not_a("an object", place))
}

/// The list at a path of keys, which is created if missing.
pub(super) fn list<'a>(
    document: &'a mut Value,
    keys: &[&str],
) -> Result<&'a mut Vec<Value>, OciRuntimeError> {
    let place = keys.last().copied().unwrap_or("document");
    member(document, keys, json!([]))?.as_array_mut().ok_or_else(|| not_a("a list", place))
}

fn member<'a>(
    document: &'a mut Value,
    keys: &[&str],
    missing: Value,
) -> Result<&'a mut Value, OciRuntimeError> {
    let Some((key, above)) = keys.split_last() else { return Ok(document) };
    let value = object(document, above)?.entry(*key).or_insert(Value::Null);
    if value.is_null() {
        *value = missing;
    }
    Ok(value)
}

pub(super) fn is(value: &Value, key: &str, text: &str) -> bool {
    value.get(key).and_then(Value::as_str) == Some(text)
}

pub(super) fn not_a(kind: &str, key: &str) -> OciRuntimeError {
    OciRuntimeError::Edit(format!("{key} is not {kind}"))
}

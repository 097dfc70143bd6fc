//! Objects and lists within a `config.json`; missing ones are made.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::error::OciRuntimeError;

/// The object at a path of keys.
pub(super) fn object<'a>(
    document: &'a mut Value,
    keys: &[&str],
) -> Result<&'a mut Map<String, Value>, OciRuntimeError> {
    let mut at = document.as_object_mut().ok_or_else(|| not_a("an object", "document"))?;
    for key in keys {
        at = child(at, key)?;
    }
    Ok(at)
}

/// The object under a key.
pub(super) fn child<'a>(
    object: &'a mut Map<String, Value>,
    key: &str,
) -> Result<&'a mut Map<String, Value>, OciRuntimeError> {
    let value = object.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut().ok_or_else(|| not_a("an object", key))
}

/// The list under a key.
pub(super) fn list<'a>(
    object: &'a mut Map<String, Value>,
    key: &str,
) -> Result<&'a mut Vec<Value>, OciRuntimeError> {
    let value = object.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = json!([]);
    }
    value.as_array_mut().ok_or_else(|| not_a("a list", key))
}

/// Puts a namespace in place of that of its kind: the one at `path`, or a new one where that is empty. With
/// none, the container has the OCI runtime's own.
pub(super) fn put_namespace(
    document: &mut Value,
    kind: &str,
    path: Option<&str>,
) -> Result<(), OciRuntimeError> {
    let namespaces = list(object(document, &["linux"])?, "namespaces")?;
    namespaces.retain(|namespace| !is(namespace, "type", kind));
    namespaces.extend(path.map(|path| match path {
        "" => json!({"type": kind}),
        path => json!({"type": kind, "path": path}),
    }));
    Ok(())
}

/// The fields of a value that has some.
pub(super) fn fields(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Whether the field is this text.
pub(super) fn is(value: &Value, key: &str, text: &str) -> bool {
    value.get(key).and_then(Value::as_str) == Some(text)
}

pub(super) fn not_a(kind: &str, key: &str) -> OciRuntimeError {
    OciRuntimeError::Edit(format!("{key} is not {kind}"))
}

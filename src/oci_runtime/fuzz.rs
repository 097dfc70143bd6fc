//! Target of `make fuzz`: a bundle's `config.json` and the edits for it.

use serde_json::Value;

use super::edit::{self, Mounted};
use crate::model::oci_edits::OciEdits;

/// A document and its edits, with a NUL between them. The result must still be a document, and fields that
/// the edits do not name must be unchanged.
pub(crate) fn edited(bytes: &[u8]) {
    let (document, edits) = bytes.split_at(bytes.iter().position(|b| *b == 0).unwrap_or(0));
    let edits = edits.strip_prefix(&[0]).unwrap_or(edits);
    let Ok(before) = serde_json::from_slice::<Value>(document) else { return };
    let Ok(edits) = serde_json::from_slice::<OciEdits>(edits) else { return };
    let mut after = before.clone();
    let _ = edit::mapped_mounts(&before, &edits);
    match edit::edit(&mut after, &edits, &Mounted::default()) {
        Ok(()) => {
            if edits.is_empty() {
                assert_eq!(before, after);
            }
            let named = edits.edits.iter().filter_map(|edit| edit.keys().first().copied());
            let known: Vec<&str> = named.chain(["mounts", "linux"]).collect();
            for (key, value) in before.as_object().into_iter().flatten() {
                assert!(known.contains(&key.as_str()) || after.get(key) == Some(value), "{key}");
            }
            let read = serde_json::from_str::<Value>(&after.to_string());
            assert!(read.is_ok(), "what is written is JSON");
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
}

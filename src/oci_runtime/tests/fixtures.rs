//! Tests with fixtures: each has a `config.json`, edits, and the expected result.

use serde_json::{Value, json};

use super::{
    super::edit::{self, Mounted},
    OciEdits, SpecEdit,
};
use crate::translate::tests::fixtures;

#[test]
fn edits_change_documents_as_recorded() {
    fixtures("oci-edits", 12, |case| {
        let edits: OciEdits = serde_json::from_value(case["edits"].clone()).unwrap();
        assert!(edits.edits.iter().all(SpecEdit::is_for_plugins));
        let mut document = case["document"].clone();
        case["edited"] = match edit::edit(&mut document, &edits, &Mounted::default()) {
            Ok(()) => {
                assert_eq!(changed_twice(&document, &edits), document);
                document
            }
            Err(error) => json!({"error": error.to_string()}),
        };
    });
}

/// Applies the edits to a document again. Leaves out edits that append to a list, because these would add
/// hooks and rules twice.
fn changed_twice(document: &Value, edits: &OciEdits) -> Value {
    let mut edits = edits.clone();
    edits.edits.retain(|edit| !matches!(edit, SpecEdit::Add { .. }));
    let mut again = document.clone();
    edit::edit(&mut again, &edits, &Mounted::default()).unwrap();
    if !edits.is_empty() && !document["linux"]["resources"]["devices"].is_null() {
        again["linux"]["resources"]["devices"] = document["linux"]["resources"]["devices"].clone();
    }
    again
}

//! Fixture pairs: a `config.json` and edits, and what becomes of them.

use serde_json::{Value, json};

use super::{
    super::edit::{self, Mounted},
    OciEdits,
};
use crate::translate::tests::fixtures;

#[test]
fn edits_change_documents_as_recorded() {
    fixtures("oci-edits", 12, |case| {
        let edits: OciEdits = serde_json::from_value(case["edits"].clone()).unwrap();
        let known = serde_json::to_value(&edits.changes).unwrap();
        assert_eq!(known, case["edits"]["changes"], "a field of the fixture is not known");
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

/// Whatever sets a value sets it again. Hooks and rules are added, so they are left out.
fn changed_twice(document: &Value, edits: &OciEdits) -> Value {
    let mut edits = edits.clone();
    edits.changes.hooks = Default::default();
    edits.changes.device_rules = Vec::new();
    let had_devices = !edits.changes.devices.is_empty();
    let mut again = document.clone();
    edit::edit(&mut again, &edits, &Mounted::default()).unwrap();
    if had_devices {
        again["linux"]["resources"]["devices"] = document["linux"]["resources"]["devices"].clone();
    }
    again
}

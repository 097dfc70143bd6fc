//! Targets of `make fuzz`: specification files of devices.

use super::{
    engine_edits, oci_changes,
    specification::{Format, Specification},
};
use crate::model::{cdi::CdiEdits, oci_changes::OciChanges};

/// A file in both forms. What is in the one is in the other: JSON is YAML.
pub(crate) fn specification(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for format in [Format::Json, Format::Yaml] {
        match Specification::parse(format, &text) {
            Ok(found) => {
                let own = found.devices.iter().map(|device| &device.container_edits);
                for requested in own.chain([&found.container_edits]) {
                    let mut edits = CdiEdits::default();
                    if let Err(problem) = engine_edits::add(&mut edits, requested) {
                        let _ = problem.to_string();
                    }
                    assert!(!edits.groups.contains(&0));
                    let mut changes = OciChanges::default();
                    if let Err(problem) = oci_changes::add(&mut changes, requested) {
                        let _ = problem.to_string();
                    }
                    assert!(!changes.groups.contains(&0));
                }
            }
            Err(malformed) => assert!(!malformed.reason.contains('\n')),
        }
    }
}

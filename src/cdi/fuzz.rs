//! Targets of `make fuzz`: specification files of devices.

use super::{
    edits,
    specification::{Format, Specification},
};
use crate::model::cdi::CdiEdits;

/// A file in both forms. What is in the one is in the other: JSON is YAML.
pub(crate) fn specification(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for format in [Format::Json, Format::Yaml] {
        match Specification::parse(format, &text) {
            Ok(found) => {
                let own = found.devices.iter().map(|device| &device.container_edits);
                for requested in own.chain([&found.container_edits]) {
                    let mut edits = CdiEdits::default();
                    if let Err(problem) = edits::add(&mut edits, requested) {
                        let _ = problem.to_string();
                    }
                    assert!(!edits.groups.contains(&0));
                }
            }
            Err(malformed) => assert!(!malformed.reason.contains('\n')),
        }
    }
}

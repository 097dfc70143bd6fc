//! A target of `make fuzz`: CDI specification files.

use super::{
    edits,
    specification::{Format, Specification},
};
use crate::model::spec_edit::SpecEdit;

/// Parses the file as JSON and as YAML, and makes all its edits. Every edit must be one that a CDI device or an NRI
/// plugin may request. The error of an edit must have a text, and a parser's error must have no line break.
pub(crate) fn specification(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for format in [Format::Json, Format::Yaml] {
        match Specification::parse(format, &text) {
            Ok(found) => {
                let own = found.devices.iter().map(|device| &device.container_edits);
                for requested in own.chain([&found.container_edits]) {
                    for engine in [None, Some(edits::Check(|_| Ok(())))] {
                        match edits::spec_edits(requested, engine) {
                            Ok(edits) => assert!(edits.iter().all(SpecEdit::is_for_plugins)),
                            Err(problem) => assert!(!problem.to_string().is_empty()),
                        }
                    }
                }
            }
            Err(malformed) => assert!(!malformed.reason.contains('\n')),
        }
    }
}

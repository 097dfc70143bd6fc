//! Renders times that kubelet's client requires.

use crate::model::time::Nanos;

/// Renders an unset creation time as 1, because kubelet's client would reject an answer with 0.
pub(super) fn created_at(time: Nanos) -> i64 {
    if time.is_set() { time.0 } else { 1 }
}

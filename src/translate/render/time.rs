//! Times that kubelet's client requires.

use crate::model::time::Nanos;

/// A creation time, which is never 0. kubelet's client would discard an answer with 0.
pub(super) fn created_at(time: Nanos) -> i64 {
    if time.is_set() { time.0 } else { 1 }
}

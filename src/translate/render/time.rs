//! Times that kubelet's client insists on.

use crate::model::time::Nanos;

/// A creation time: never 0, for which the client would discard the answer.
pub(super) fn created_at(time: Nanos) -> i64 {
    if time.is_set() { time.0 } else { 1 }
}

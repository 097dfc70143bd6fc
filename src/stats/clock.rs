//! The clock, as CRI counts.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::time::Nanos;

/// Now; never unset.
pub(super) fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX).max(1))
}

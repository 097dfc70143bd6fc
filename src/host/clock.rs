//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// The time in nanoseconds since the Unix epoch; 0 if the clock shows an earlier time.
pub fn nanos() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

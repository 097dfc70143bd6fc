//! Points in time as CRI represents them.

use serde::{Deserialize, Serialize};

/// A time in nanoseconds since the Unix epoch; 0 means unset, as in CRI.
///
/// Docker's `0001-01-01T00:00:00Z` also means unset and must be read as [`Nanos::UNSET`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub i64);

impl Nanos {
    /// No time.
    pub const UNSET: Self = Self(0);

    /// Whether the time is known.
    pub const fn is_set(self) -> bool {
        self.0 != 0
    }
}

//! Instants the way CRI counts them.

use serde::{Deserialize, Serialize};

/// Nanoseconds since the Unix epoch; 0 means unset (CRI's convention for every time field).
///
/// Docker's `0001-01-01T00:00:00Z` is unset too and must be read as [`Nanos::UNSET`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub i64);

impl Nanos {
    /// No such instant.
    pub const UNSET: Self = Self(0);

    /// Whether the instant is known.
    pub const fn is_set(self) -> bool {
        self.0 != 0
    }
}

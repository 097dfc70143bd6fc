//! CPU shares on the scales of both cgroup versions, and their conversion.

/// A share of the CPU on the scale of its hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuWeight {
    /// Version 1: 2 to 262144, usually 1024.
    Shares(i64),
    /// Version 2: 1 to 10000, usually 100.
    Weight(i64),
}

impl CpuWeight {
    /// The value on the scale of version 1: `requested` if a runtime converts these shares to this weight
    /// (0 means no request), the default for the default weight, and otherwise cAdvisor's result.
    ///
    /// Runtimes use two formulas, so a weight does not show from which shares it was made: 59 is 512 shares
    /// with runc 1.3.2 and newer, and 1,522 with older ones.
    pub fn shares(self, requested: i64) -> i64 {
        match self {
            Self::Shares(shares) => shares,
            Self::Weight(weight) if requested != 0 && is_made_of(weight, requested) => requested,
            Self::Weight(DEFAULT_WEIGHT) => DEFAULT_SHARES,
            Self::Weight(weight) => {
                let above = weight.clamp(1, MAX_WEIGHT) - 1;
                MIN_SHARES + above * (MAX_SHARES - MIN_SHARES) / (MAX_WEIGHT - 1)
            }
        }
    }
}

fn is_made_of(weight: i64, shares: i64) -> bool {
    let shares = shares.clamp(MIN_SHARES, MAX_SHARES);
    linear(shares) == weight || (curved(shares) - weight).abs() <= 1
}

/// Maps 2..=262144 linearly to 1..=10000.
const fn linear(shares: i64) -> i64 {
    1 + (shares - MIN_SHARES) * (MAX_WEIGHT - 1) / (MAX_SHARES - MIN_SHARES)
}

/// The same on a curve through (1024, 100), as in runc 1.3.2 and newer, and crun 1.23 and newer.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "shares are below 2^18, and OCI runtimes also compute with f64"
)]
fn curved(shares: i64) -> i64 {
    let doublings = (shares as f64).log2();
    let exponent = (doublings * doublings + 125.0 * doublings) / 612.0 - 7.0 / 34.0;
    10_f64.powf(exponent).ceil() as i64
}

const MIN_SHARES: i64 = 2;
const MAX_SHARES: i64 = 1 << 18;
const DEFAULT_SHARES: i64 = 1024;
const DEFAULT_WEIGHT: i64 = 100;
const MAX_WEIGHT: i64 = 10_000;

//! Converts CPU weights of cgroup v2 to CPU shares of cgroup v1.

/// A relative share of the CPU, on the scale of its cgroup version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuWeight {
    /// The `cpu.shares` of cgroup v1: 2 to 262144, by default 1024.
    Shares(i64),
    /// The `cpu.weight` of cgroup v2: 1 to 10000, by default 100.
    Weight(i64),
}

impl CpuWeight {
    /// The shares on the scale of cgroup v1. For a weight that a runtime may have computed from the `requested` shares,
    /// returns `requested` (0 means that no shares were requested). Otherwise returns the default shares for the
    /// default weight, and the result of cAdvisor's formula for another weight.
    ///
    /// Runtimes use two formulas, so the same weight can result from different shares: the weight 59 means 512 shares
    /// with runc 1.3.2 and newer, and about 1,522 shares with older versions.
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

/// Converts shares to a weight: maps 2..=262144 linearly to 1..=10000.
const fn linear(shares: i64) -> i64 {
    1 + (shares - MIN_SHARES) * (MAX_WEIGHT - 1) / (MAX_SHARES - MIN_SHARES)
}

/// Converts shares to a weight along a curve through (1024, 100), as runc since 1.3.2 and crun since 1.23 do.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "shares are at most 2^18, and OCI runtimes also compute with f64"
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

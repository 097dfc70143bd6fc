//! Reproducible random numbers: a test prints its seed.

use rand::{SeedableRng, rngs::StdRng};

use super::stated::stated;

/// Uses the seed in `STORY_SEED`, otherwise a fixed one, so that chance does not decide whether a change is
/// merged. `make chaos` sets a random seed.
pub(crate) fn seeded() -> StdRng {
    let seed = stated("STORY_SEED").unwrap_or(1);
    println!("  STORY_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

//! Reproducible random numbers: a test prints its seed.

use rand::{SeedableRng, rngs::StdRng};

use super::stated::stated;

/// A random number generator with the seed in `STORY_SEED`, or a fixed seed, so that chance does not decide whether a
/// change is merged. Without `SEED=…`, `make chaos` sets a random seed.
pub(crate) fn seeded() -> StdRng {
    let seed = stated("STORY_SEED").unwrap_or(1);
    println!("  STORY_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

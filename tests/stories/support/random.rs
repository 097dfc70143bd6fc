//! Reproducible random numbers: a story prints its seed.

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::stated::stated;

/// Draws from the seed in `STORY_SEED`, else from one of its own.
pub(crate) fn seeded() -> StdRng {
    let seed = stated("STORY_SEED").unwrap_or_else(|| rand::rng().random());
    println!("  STORY_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

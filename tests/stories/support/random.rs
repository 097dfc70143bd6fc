//! Reproducible random numbers: a story prints its seed.

use rand::{Rng, SeedableRng, rngs::StdRng};

/// Draws from the seed in `STORY_SEED`, else from one of its own.
pub(crate) fn seeded() -> StdRng {
    let seed = std::env::var("STORY_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| rand::rng().random());
    println!("  STORY_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

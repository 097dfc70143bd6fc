//! Doors for `make fuzz`: the files that must survive, and those of whoever served the engine before.

use std::fmt::Debug;

use serde::{Serialize, de::DeserializeOwned};

use super::{
    directory::PodCidrs,
    envelope, predecessor,
    record::{MemoryKills, PulledImages, Resized, SandboxCheckpoint},
};

/// A file whole, and as a body within an envelope: what is understood comes back from what is
/// written of it.
pub(crate) fn stored(bytes: &[u8]) {
    round::<SandboxCheckpoint>(bytes);
    round::<PulledImages>(bytes);
    round::<Resized>(bytes);
    round::<MemoryKills>(bytes);
    round::<PodCidrs>(bytes);
    let _ = predecessor::decode(bytes);
}

fn round<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let whole = envelope::open::<T>(bytes).ok();
    let body = serde_json::from_slice::<T>(bytes).ok();
    for body in [whole, body].into_iter().flatten() {
        let sealed = envelope::seal(&body).unwrap_or_default();
        assert_eq!(envelope::open::<T>(&sealed).ok(), Some(body));
    }
}

//! Targets of `make fuzz`: our own stored files, and the checkpoint files of cri-dockerd and dockershim.

use std::fmt::Debug;

use serde::{Serialize, de::DeserializeOwned};

use super::{
    cri_dockerd, envelope,
    record::{ChangesSinceCreate, MemoryKills, PodCidrs, PulledImages, SandboxCheckpoint},
};

/// A parsed value must be the same after it is written and read again.
pub(crate) fn stored(bytes: &[u8]) {
    round::<SandboxCheckpoint>(bytes);
    round::<PulledImages>(bytes);
    round::<ChangesSinceCreate>(bytes);
    round::<MemoryKills>(bytes);
    round::<PodCidrs>(bytes);
    let _ = cri_dockerd::decode(bytes);
}

fn round<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let whole = envelope::open::<T>(bytes).ok();
    let body = serde_json::from_slice::<T>(bytes).ok();
    for body in [whole, body].into_iter().flatten() {
        let sealed = envelope::seal(&body).unwrap_or_default();
        assert_eq!(envelope::open::<T>(&sealed).ok(), Some(body));
    }
}

//! How patient the store is, and how often it looks again unasked.

use std::time::Duration;

/// Intervals, deadlines and bounds of the store.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// How often everything is looked at again although no event asked for it.
    pub relist_every: Duration,
    /// How soon after a list another may follow because an inspect failed: what happened to that
    /// object, only a list tells.
    pub relist_rest: Duration,
    /// How often the engine is pinged: a frozen one is noticed by nothing else.
    pub ping_every: Duration,
    /// How long one inspect may take.
    pub inspect_deadline: Duration,
    /// How long a ping, `/info` or the opening of the event stream may take.
    pub connect_deadline: Duration,
    /// How long one list of all ids may take.
    pub list_deadline: Duration,
    /// An inspect that takes longer than this no longer holds back the others.
    pub slow_after: Duration,
    /// Inspects under way at the same time, apart from slow ones and those a verb waits for.
    pub looks: usize,
    /// Slow inspects under way at the same time.
    pub slow_looks: usize,
}

/// How long whoever asks waits for the first look at the engine. Less than the 2 s that crictl
/// and kubeadm wait in all, so that they are told why.
pub const SYNC_PATIENCE: Duration = Duration::from_millis(1500);

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            relist_every: Duration::from_secs(300),
            relist_rest: Duration::from_secs(30),
            ping_every: Duration::from_secs(5),
            inspect_deadline: Duration::from_secs(10),
            connect_deadline: Duration::from_secs(5),
            list_deadline: Duration::from_secs(30),
            slow_after: Duration::from_secs(1),
            looks: 16,
            slow_looks: 64,
        }
    }
}

//! Intervals, deadlines and bounds of the store.

use std::time::Duration;

/// How often the store asks the engine, how long it waits, and how much it asks at a time.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// How often everything is listed and inspected although no event asked for it.
    pub relist_interval: Duration,
    /// The shortest time between lists when inspects fail: only a list has the state then.
    pub relist_min_interval: Duration,
    /// How often the engine is pinged: a frozen one keeps its event stream open.
    pub ping_interval: Duration,
    /// How long one inspect may take.
    pub inspect_deadline: Duration,
    /// How long a ping, `/info` or the opening of the event stream may take.
    pub connect_deadline: Duration,
    /// How long a list of all objects may take.
    pub list_deadline: Duration,
    /// An inspect that takes longer than this counts as slow and no longer holds back the others.
    pub slow_after: Duration,
    /// Inspects that run at the same time, apart from slow ones and those a caller waits for.
    pub inspects: usize,
    /// Slow inspects that run at the same time.
    pub slow_inspects: usize,
}

/// How long a caller waits for the engine's first list. Less than the 2 s for which crictl and
/// kubeadm wait in all, so that they get the reason.
pub const SYNC_TIMEOUT: Duration = Duration::from_millis(1500);

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            relist_interval: Duration::from_secs(300),
            relist_min_interval: Duration::from_secs(30),
            ping_interval: Duration::from_secs(5),
            inspect_deadline: Duration::from_secs(10),
            connect_deadline: Duration::from_secs(5),
            list_deadline: Duration::from_secs(30),
            slow_after: Duration::from_secs(1),
            inspects: 16,
            slow_inspects: 64,
        }
    }
}

//! Intervals, deadlines and limits of the store.

use std::time::Duration;

/// How often the store asks the engine, how long it waits, and how many requests it makes at a time.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// How often everything is listed and inspected without an event.
    pub relist_interval: Duration,
    /// The shortest time between lists while inspects fail, because the state is then only known from lists.
    pub relist_min_interval: Duration,
    /// How often the engine is pinged, because a frozen engine keeps its event stream open.
    pub ping_interval: Duration,
    pub inspect_deadline: Duration,
    /// How long a ping, `/info` or the opening of the event stream may take.
    pub connect_deadline: Duration,
    /// How long a list of all objects may take.
    pub list_deadline: Duration,
    /// An inspect that takes longer counts as slow and no longer delays the others.
    pub slow_after: Duration,
    /// Concurrent inspects, without slow ones and those that a caller waits for.
    pub inspects: usize,
    pub slow_inspects: usize,
}

/// How long a caller waits for the engine's first list. This is less than the total of 2 s that crictl and
/// kubeadm wait, so that they get the reason.
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

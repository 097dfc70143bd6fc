//! Intervals, deadlines and limits of the store.

use std::time::Duration;

/// How often the store asks the engine, how long it waits, and how many requests it makes at a time.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// How often the store lists all containers and images, if nothing causes an earlier list. After each list, the
    /// store inspects the listed objects, except foreign containers.
    pub relist_interval: Duration,
    /// The shortest time between a list and the next, if the failed inspect of a container causes the next list.
    /// While the inspect of a container fails, only lists show changes of its state.
    pub relist_min_interval: Duration,
    /// How often the store pings the engine. A ping finds a frozen engine, which keeps its event stream open.
    pub ping_interval: Duration,
    pub inspect_deadline: Duration,
    /// How long a ping, `/info` or the opening of the event stream may take.
    pub connect_deadline: Duration,
    /// How long a list of all containers or images may take. The first list of images has a shorter limit.
    pub list_deadline: Duration,
    /// An inspect that takes longer counts as slow, and no longer delays other inspects if there are fewer than
    /// `slow_inspects` slow ones with the same reason, a change or a list.
    pub slow_after: Duration,
    /// The limit of concurrent inspects after changes, and a separate limit of the same size for inspects after
    /// lists. Inspects for which a caller waits, and up to `slow_inspects` slow ones for each limit, do not count.
    pub inspects: usize,
    pub slow_inspects: usize,
}

/// How long a caller waits for the engine's first list. This is shorter than the 2 s that crictl and kubeadm wait for
/// an answer, so that they get an error with the reason.
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

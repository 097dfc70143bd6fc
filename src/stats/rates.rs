//! Rates of processor usage, for several callers with different intervals. A rate is computed between a new reading and
//! an earlier reading, the base. If the base is newer than [`SHORTEST_INTERVAL`], the result is the last rate, if any.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// The base and the last rate of each cgroup.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<HashMap<String, Rate>>);

#[derive(Clone, Copy, Debug)]
struct Rate {
    at: Instant,
    usage: u64,
    nano_cores: Option<u64>,
}

impl Rates {
    /// Adds a reading of processor time in nanoseconds. Returns the processor time per second, if known.
    pub(super) fn next(&self, id: &str, usage: u64, at: Instant) -> Option<u64> {
        let mut known = self.0.lock();
        let Some(last) = known.get_mut(id) else {
            known.insert(id.to_owned(), Rate { at, usage, nano_cores: None });
            return None;
        };
        let since = at.saturating_duration_since(last.at);
        if usage < last.usage {
            // The usage has decreased, so this is a new cgroup with the same name.
            *last = Rate { at, usage, nano_cores: None };
        } else if since >= SHORTEST_INTERVAL {
            let nano_cores = Some(rate(usage - last.usage, since));
            *last = Rate { at, usage, nano_cores };
        }
        last.nano_cores
    }

    pub(super) fn retain(&self, ids: &HashSet<&str>) {
        self.0.lock().retain(|id, _| ids.contains(id.as_str()));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

fn rate(used: u64, since: Duration) -> u64 {
    let used = u128::from(used).saturating_mul(1_000_000_000);
    u64::try_from(used / since.as_nanos().max(1)).unwrap_or(u64::MAX)
}

/// A rate over a shorter time would be wrong, because the kernel updates the usage only at intervals.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(900);

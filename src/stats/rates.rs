//! Rates of processor usage, computed from earlier readings.
//!
//! Several callers ask at different intervals. A reading becomes the next base only if the last base is old
//! enough. Until then the last rate is returned again.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// The last reading of each group.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<HashMap<String, Rate>>);

/// The last base of a cgroup, and the rate up to it.
#[derive(Clone, Copy, Debug)]
struct Rate {
    at: Instant,
    usage: u64,
    nano_cores: Option<u64>,
}

impl Rates {
    /// Adds a reading of processor time in nanoseconds. Returns the usage per second.
    pub(super) fn next(&self, id: &str, usage: u64, at: Instant) -> Option<u64> {
        let mut known = self.0.lock();
        let Some(last) = known.get_mut(id) else {
            known.insert(id.to_owned(), Rate { at, usage, nano_cores: None });
            return None;
        };
        let since = at.saturating_duration_since(last.at);
        if usage < last.usage {
            // Another cgroup with the same name.
            *last = Rate { at, usage, nano_cores: None };
        } else if since >= SHORTEST {
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

/// Over a shorter time, the kernel's update interval would affect the rate.
const SHORTEST: Duration = Duration::from_millis(900);

//! Limits for concurrent streams, where one exec, attach or port-forward counts as one stream: in total, for each
//! container or pod, and for attach and port-forward together.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

/// Counts the open streams of the server. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Number of open streams of attach and port-forward. The limit for attach and port-forward together is lower than
    /// the limit for all streams.
    idlers: usize,
    by_target: HashMap<String, usize>,
}

/// One stream counts against the limits as long as this value exists.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    target: String,
    is_command: bool,
}

impl Places {
    /// Counts a new stream to this container or pod. Returns `None` if a limit for streams is reached.
    pub(super) fn take(&self, target: String, is_command: bool) -> Option<Place> {
        let mut taken = self.0.lock();
        let of_target = taken.by_target.get(&target).copied().unwrap_or_default();
        let is_full = taken.all >= MOST_STREAMS
            || of_target >= MOST_OF_A_TARGET
            || (!is_command && taken.idlers >= MOST_STREAMS - RESERVED_FOR_COMMANDS);
        if is_full {
            return None;
        }
        taken.all += 1;
        taken.idlers += usize::from(!is_command);
        taken.by_target.insert(target.clone(), of_target + 1);
        Some(Place { places: self.clone(), target, is_command })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock();
        taken.all -= 1;
        taken.idlers -= usize::from(!self.is_command);
        if let Some(count) = taken.by_target.get_mut(&self.target) {
            *count -= 1;
            if *count == 0 {
                taken.by_target.remove(&self.target);
            }
        }
    }
}

/// Maximum number of concurrent streams: enough for all pods of a node, each with several users.
const MOST_STREAMS: usize = 1_000;
const MOST_OF_A_TARGET: usize = 250;
/// Number of streams that only exec can use, because port-forwards and attach sessions may be open for hours.
const RESERVED_FOR_COMMANDS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_target_takes_every_place_and_commands_keep_a_reserve() {
        let places = Places::default();
        let take = |target: &str, is_command, count: usize| -> Vec<Place> {
            (0..count).map_while(|_| places.take(target.to_owned(), is_command)).collect()
        };
        let mut held = Vec::new();
        for (pod, most) in [("a", 250), ("b", 250), ("c", 250), ("d", 50), ("e", 0)] {
            let forwards = take(pod, false, 1_000);
            assert_eq!(forwards.len(), most, "{pod}");
            held.extend(forwards);
        }
        let commands = [take("a", true, 1), take("x", true, 1_000)];
        assert_eq!(commands.each_ref().map(Vec::len), [0, 200]);
        held.truncate(10);
        drop(commands);
        assert_eq!(take("a", false, 1_000).len(), 240);
        drop(held);
        assert_eq!(places.0.lock().all, 0);
        assert!(places.0.lock().by_target.is_empty());
    }
}

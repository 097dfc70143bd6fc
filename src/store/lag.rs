//! How late readers see what has happened: from an event's own time to the snapshot that shows
//! what a look after it saw. No clock, no I/O.

use std::{collections::HashMap, time::Duration};

use crate::model::time::Nanos;

/// Events whose effect is not visible yet.
#[derive(Debug, Default)]
pub(super) struct Lag {
    /// By object, the first event that no finished look has answered.
    waiting: HashMap<String, Nanos>,
    /// Looked at, to be seen with the next snapshot.
    seen: Vec<Nanos>,
}

impl Lag {
    /// Something happened to an object, by the engine's clock.
    pub(super) fn happened(&mut self, object: &str, at: Nanos) {
        // Of containers that are nobody's pod no look follows.
        if self.waiting.len() >= MOST {
            self.waiting.clear();
        }
        if at.0 > 0 {
            self.waiting.entry(object.to_owned()).or_insert(at);
        }
    }

    /// What happened to it is known now.
    pub(super) fn known(&mut self, object: &str) {
        self.seen.extend(self.waiting.remove(object));
    }

    /// Nothing of what happened before is of interest: it is unknown how much was missed.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Readers see all that is known: how long that took of each.
    pub(super) fn published(&mut self, now: i64) -> impl Iterator<Item = Duration> {
        let since = move |at: Nanos| u64::try_from(now.saturating_sub(at.0)).unwrap_or_default();
        self.seen.drain(..).map(move |at| Duration::from_nanos(since(at)))
    }
}

/// More events than are ever under way at once.
const MOST: usize = 1024;

#[cfg(test)]
mod tests {
    //! What counts as late.

    use std::time::Duration;

    use super::{Lag, MOST};
    use crate::model::time::Nanos;

    #[test]
    fn the_first_event_counts_until_the_snapshot_after_the_look() {
        let mut lag = Lag::default();
        lag.happened("a", Nanos(100));
        lag.happened("a", Nanos(150));
        lag.happened("b", Nanos(120));
        assert_eq!(lag.published(200).count(), 0);
        lag.known("a");
        lag.known("c");
        assert_eq!(lag.published(300).collect::<Vec<_>>(), [Duration::from_nanos(200)]);
        assert_eq!(lag.published(400).count(), 0);
        lag.known("b");
        // A clock that was set back is no lag.
        assert_eq!(lag.published(10).collect::<Vec<_>>(), [Duration::ZERO]);
    }

    #[test]
    fn events_that_nobody_looks_at_are_not_kept_for_ever() {
        let mut lag = Lag::default();
        for number in 0..10 * MOST {
            lag.happened(&number.to_string(), Nanos(1));
        }
        assert!(lag.waiting.len() <= MOST);
        lag.forget();
        assert!(lag.waiting.is_empty());
    }
}

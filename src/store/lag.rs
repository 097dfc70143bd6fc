//! How late readers see what has happened: from an event's own time to the snapshot that shows
//! what a look that began after it saw. No clock, no I/O.
//!
//! Only what the ledger wants a look at is told here, so every event leaves again: with its look,
//! with its object, or with the link.

use std::{collections::HashMap, time::Duration};

use crate::model::time::Nanos;

/// Events whose effect is not visible yet.
#[derive(Debug, Default)]
pub(super) struct Lag {
    /// Older events are told again when the link is opened, and their lag is the link's.
    since: Nanos,
    /// By object, the first event that no look has followed.
    waiting: HashMap<String, Nanos>,
    /// By object, the first event that looks have followed, none of which has seen anything yet.
    looking: HashMap<String, Nanos>,
    /// To be visible with the next snapshot.
    seen: Vec<Nanos>,
}

impl Lag {
    /// Events come from now on. What happened before is of no interest: it is unknown how much was
    /// missed.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.since = now;
        self.waiting.clear();
        self.looking.clear();
    }

    /// Something happened to an object, by the engine's clock, and a look will follow.
    pub(super) fn happened(&mut self, object: &str, at: Nanos) {
        if at > self.since {
            self.waiting.entry(object.to_owned()).or_insert(at);
        }
    }

    /// A look at it begins.
    pub(super) fn looks(&mut self, object: &str) {
        if let Some((object, at)) = self.waiting.remove_entry(object) {
            self.looking.entry(object).or_insert(at);
        }
    }

    /// The look that began last has seen it.
    pub(super) fn seen(&mut self, object: &str) {
        self.seen.extend(self.looking.remove(object));
    }

    /// It is gone, by the engine's clock, and no look will follow.
    pub(super) fn lost(&mut self, object: &str, at: Nanos) {
        self.happened(object, at);
        self.looks(object);
        self.seen(object);
    }

    /// Readers see all that is known: how long that took of each.
    pub(super) fn published(&mut self, now: i64) -> impl Iterator<Item = Duration> {
        let since = move |at: Nanos| u64::try_from(now.saturating_sub(at.0)).unwrap_or_default();
        self.seen.drain(..).map(move |at| Duration::from_nanos(since(at)))
    }
}

#[cfg(test)]
mod tests {
    //! What counts as late.

    use super::Lag;
    use crate::model::time::Nanos;

    fn published(lag: &mut Lag, now: i64) -> Vec<u128> {
        lag.published(now).map(|late| late.as_nanos()).collect()
    }

    #[test]
    fn the_first_event_counts_until_the_snapshot_after_the_look() {
        let mut lag = Lag::default();
        lag.happened("a", Nanos(100));
        lag.happened("a", Nanos(150));
        lag.happened("b", Nanos(120));
        lag.looks("a");
        assert_eq!(published(&mut lag, 200), []);
        lag.seen("a");
        lag.seen("c");
        assert_eq!(published(&mut lag, 300), [200]);
        assert_eq!(published(&mut lag, 400), []);
        lag.looks("b");
        lag.seen("b");
        // A clock that was set back is no lag.
        assert_eq!(published(&mut lag, 10), [0]);
    }

    #[test]
    fn what_happens_during_a_look_waits_for_the_next() {
        let mut lag = Lag::default();
        lag.happened("a", Nanos(100));
        lag.looks("a");
        lag.happened("a", Nanos(150));
        lag.seen("a");
        assert_eq!(published(&mut lag, 200), [100]);
        lag.looks("a");
        // It fails, and is repeated.
        lag.happened("a", Nanos(210));
        lag.looks("a");
        lag.seen("a");
        assert_eq!(published(&mut lag, 300), [150]);
        assert!(lag.waiting.is_empty() && lag.looking.is_empty());
    }

    #[test]
    fn what_is_gone_is_not_looked_at() {
        let mut lag = Lag::default();
        lag.happened("a", Nanos(100));
        lag.looks("a");
        lag.happened("a", Nanos(150));
        lag.lost("a", Nanos(160));
        assert_eq!(published(&mut lag, 200), [100]);
        assert!(lag.waiting.is_empty() && lag.looking.is_empty());
        lag.seen("a");
        assert_eq!(published(&mut lag, 300), []);
    }

    #[test]
    fn what_is_told_again_is_not_late() {
        let mut lag = Lag::default();
        lag.happened("a", Nanos(100));
        lag.looks("a");
        lag.happened("b", Nanos(100));
        lag.begin(Nanos(1000));
        lag.happened("c", Nanos(900));
        lag.lost("d", Nanos(900));
        for object in ["a", "b", "c"] {
            lag.looks(object);
            lag.seen(object);
        }
        assert_eq!(published(&mut lag, 1100), []);
        lag.lost("d", Nanos(1050));
        assert_eq!(published(&mut lag, 1100), [50]);
    }
}

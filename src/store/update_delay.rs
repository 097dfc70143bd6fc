//! How long after an event readers see its effect: from the time of the event to the snapshot that shows
//! the result of a later inspect. No clock, no I/O.
//!
//! Only events that cause an inspect are recorded. Every record ends with its inspect, with its object, or
//! with the connection.

use std::{collections::HashMap, time::Duration};

use crate::model::time::Nanos;

/// Events whose effect is not visible yet.
#[derive(Debug, Default)]
pub(super) struct UpdateDelay {
    /// When the stream was opened. The engine then repeats older events, whose delay does not count.
    since: Nanos,
    /// By object: the first event after which no inspect has begun.
    waiting: HashMap<String, Nanos>,
    /// By object: the first event after which an inspect has begun but not answered.
    inspecting: HashMap<String, Nanos>,
    /// Events whose effect is visible in the next snapshot.
    inspected: Vec<Nanos>,
}

impl UpdateDelay {
    /// The event stream was opened. The number of missed events is unknown.
    pub(super) fn connected(&mut self, now: Nanos) {
        self.since = now;
        self.waiting.clear();
        self.inspecting.clear();
    }

    /// An event of an object, with its time on the engine's clock. An inspect will follow.
    pub(super) fn event(&mut self, object: &str, at: Nanos) {
        if at > self.since {
            self.waiting.entry(object.to_owned()).or_insert(at);
        }
    }

    pub(super) fn inspect_began(&mut self, object: &str) {
        if let Some((object, at)) = self.waiting.remove_entry(object) {
            self.inspecting.entry(object).or_insert(at);
        }
    }

    /// The engine has answered the latest inspect.
    pub(super) fn inspected(&mut self, object: &str) {
        self.inspected.extend(self.inspecting.remove(object));
    }

    /// The object is gone at this time of the engine's clock, and no inspect will follow.
    pub(super) fn gone(&mut self, object: &str, at: Nanos) {
        self.event(object, at);
        self.inspect_began(object);
        self.inspected(object);
    }

    /// Everything known is visible. Returns the delay of each event.
    pub(super) fn published(&mut self, now: i64) -> impl Iterator<Item = Duration> {
        let since = move |at: Nanos| u64::try_from(now.saturating_sub(at.0)).unwrap_or_default();
        self.inspected.drain(..).map(move |at| Duration::from_nanos(since(at)))
    }
}

#[cfg(test)]
mod tests {
    //! Which events count, and from which time.

    use super::UpdateDelay;
    use crate::model::time::Nanos;

    fn published(delay: &mut UpdateDelay, now: i64) -> Vec<u128> {
        delay.published(now).map(|delay| delay.as_nanos()).collect()
    }

    #[test]
    fn the_first_event_counts_until_the_snapshot_after_the_inspect() {
        let mut delay = UpdateDelay::default();
        delay.event("a", Nanos(100));
        delay.event("a", Nanos(150));
        delay.event("b", Nanos(120));
        delay.inspect_began("a");
        assert_eq!(published(&mut delay, 200), []);
        delay.inspected("a");
        delay.inspected("c");
        assert_eq!(published(&mut delay, 300), [200]);
        assert_eq!(published(&mut delay, 400), []);
        delay.inspect_began("b");
        delay.inspected("b");
        // If the clock was set back, the delay is 0.
        assert_eq!(published(&mut delay, 10), [0]);
    }

    #[test]
    fn an_event_during_an_inspect_waits_for_the_next() {
        let mut delay = UpdateDelay::default();
        delay.event("a", Nanos(100));
        delay.inspect_began("a");
        delay.event("a", Nanos(150));
        delay.inspected("a");
        assert_eq!(published(&mut delay, 200), [100]);
        delay.inspect_began("a");
        // The inspect fails and is repeated.
        delay.event("a", Nanos(210));
        delay.inspect_began("a");
        delay.inspected("a");
        assert_eq!(published(&mut delay, 300), [150]);
        assert!(delay.waiting.is_empty() && delay.inspecting.is_empty());
    }

    #[test]
    fn what_is_gone_is_not_inspected() {
        let mut delay = UpdateDelay::default();
        delay.event("a", Nanos(100));
        delay.inspect_began("a");
        delay.event("a", Nanos(150));
        delay.gone("a", Nanos(160));
        assert_eq!(published(&mut delay, 200), [100]);
        assert!(delay.waiting.is_empty() && delay.inspecting.is_empty());
        delay.inspected("a");
        assert_eq!(published(&mut delay, 300), []);
    }

    #[test]
    fn repeated_events_do_not_count() {
        let mut delay = UpdateDelay::default();
        delay.event("a", Nanos(100));
        delay.inspect_began("a");
        delay.event("b", Nanos(100));
        delay.connected(Nanos(1000));
        delay.event("c", Nanos(900));
        delay.gone("d", Nanos(900));
        for object in ["a", "b", "c"] {
            delay.inspect_began(object);
            delay.inspected(object);
        }
        assert_eq!(published(&mut delay, 1100), []);
        delay.gone("d", Nanos(1050));
        assert_eq!(published(&mut delay, 1100), [50]);
    }
}

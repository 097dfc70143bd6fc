//! Metrics of the store: how current its state is, and how much work it does for that.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::inspect_queue::Target;
use crate::telemetry::metric::{Counter, Family};

/// Metrics of the writer task. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct StoreMetrics {
    pub(super) events: Counter,
    pub(super) lists: Counter,
    pub(super) disconnects: Counter,
    pub(super) inspects: Family<Counter, 2>,
    /// When the engine last sent an event or a list, or answered a ping or the first `info` of a connection.
    last_contact: Arc<Mutex<Option<Instant>>>,
}

impl StoreMetrics {
    /// Records that the engine has just sent an event or a list, or answered a ping or the first `info` of a
    /// connection.
    pub(super) fn contact(&self) {
        *self.last_contact.lock() = Some(Instant::now());
    }

    pub(super) fn inspected(&self, target: &Target, success: bool) {
        let object = match target {
            Target::Container(_) => "container",
            Target::Image(_) => "image",
        };
        self.inspects.with([object, if success { "ok" } else { "error" }]).inc();
    }

    /// How long ago the engine last sent an event or a list, or answered a ping or the first `info` of a connection;
    /// `None` if it never did.
    pub fn since_last_contact(&self) -> Option<Duration> {
        self.last_contact.lock().map(|last| last.elapsed())
    }
}

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
    last_contact: Arc<Mutex<Option<Instant>>>,
}

impl StoreMetrics {
    /// Records the present time for [`Self::since_last_contact`].
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

    /// How long ago the engine last opened the event stream, sent a list or an event that dockbridge handles, or
    /// answered a ping during the stream; `None` before the first stream.
    pub fn since_last_contact(&self) -> Option<Duration> {
        self.last_contact.lock().map(|last| last.elapsed())
    }
}

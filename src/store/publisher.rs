//! Publishes snapshots of the store, and answers callers of the store.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use tracing::{info, warn};

use super::{
    metrics::StoreMetrics,
    snapshot::Snapshot,
    state::{Answer, StoreState},
};
use crate::{error::Failure, model::engine::EngineHealth};

/// A caller that waits for an inspect.
#[derive(Debug)]
pub(super) struct Reply(pub(super) oneshot::Sender<Result<(), Failure>>);

/// The published snapshot, and the callers that wait for the next snapshot.
pub(super) struct Publisher {
    published: watch::Sender<Arc<Snapshot>>,
    /// Callers that get an answer once a snapshot shows the effect of all messages received so far.
    pub(super) waiting: Vec<oneshot::Sender<()>>,
    /// The earliest time for the next snapshot.
    pub(super) not_before: Instant,
    pub(super) metrics: StoreMetrics,
}

impl Publisher {
    pub(super) fn new(published: watch::Sender<Arc<Snapshot>>, metrics: StoreMetrics) -> Self {
        Self { published, waiting: Vec::new(), not_before: Instant::now(), metrics }
    }

    /// Publishes a changed state, and then answers callers. Does nothing if it is too early to publish one.
    pub(super) fn flush(&mut self, state: &mut StoreState<Reply, Failure>) {
        if state.has_changed() {
            if Instant::now() < self.not_before {
                return;
            }
            self.publish(state);
        }
        // Sending fails if a caller no longer waits.
        for Answer { waiters, result } in state.take_answers() {
            for Reply(waiter) in waiters {
                let _ = waiter.send(result.clone());
            }
        }
        for reply in self.waiting.drain(..) {
            let _ = reply.send(());
        }
    }

    fn publish(&mut self, state: &mut StoreState<Reply, Failure>) {
        let began = Instant::now();
        let last = Arc::clone(&self.published.borrow());
        let next = state.snapshot(&last);
        if next.health != last.health {
            log_health(&next);
        }
        self.published.send_replace(Arc::new(next));
        let ended = Instant::now();
        self.not_before = ended + (ended - began).saturating_mul(REST_PER_WORK).min(LONGEST_REST);
    }
}

fn log_health(now: &Snapshot) {
    match &now.health {
        EngineHealth::Starting => {}
        EngineHealth::Reachable => {
            let (pods, containers) = (now.sandboxes().len(), now.containers().len());
            info!(pods, containers, images = now.images().len(), "the docker engine is ready");
        }
        EngineHealth::Unreachable { reason } => {
            warn!(
                reason,
                "the docker engine is not ready; retrying, and serving the last known state if any"
            );
        }
    }
}

/// Pause after a snapshot, in multiples of the time that it took, up to [`LONGEST_REST`].
const REST_PER_WORK: u32 = 4;
const LONGEST_REST: Duration = Duration::from_millis(100);

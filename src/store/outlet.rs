//! Where snapshots and answers leave the writer.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use tracing::{info, warn};

use super::{
    error::StoreError,
    lag::Lag,
    ledger::{Answer, Ledger},
    metrics::StoreMetrics,
    snapshot::Snapshot,
};
use crate::{host::clock, model::engine::EngineHealth};

/// Whoever waits for a look.
#[derive(Debug)]
pub(super) struct Reply(pub(super) oneshot::Sender<Result<(), StoreError>>);

/// The published snapshot, and those waiting for the next one.
pub(super) struct Outlet {
    current: Arc<ArcSwap<Snapshot>>,
    published: watch::Sender<()>,
    notices: Vec<oneshot::Sender<()>>,
    not_before: Instant,
    pub(super) lag: Lag,
    pub(super) metrics: StoreMetrics,
}

impl Outlet {
    pub(super) fn new(
        current: &Arc<ArcSwap<Snapshot>>,
        published: watch::Sender<()>,
        metrics: StoreMetrics,
    ) -> Self {
        Self {
            current: Arc::clone(current),
            published,
            notices: Vec::new(),
            not_before: Instant::now(),
            lag: Lag::default(),
            metrics,
        }
    }

    /// Tells `notice` once everything taken in so far is visible.
    pub(super) fn announce(&mut self, notice: oneshot::Sender<()>) {
        self.notices.push(notice);
    }

    /// When the next snapshot may be made: the costlier the last one was, the later.
    pub(super) const fn not_before(&self) -> Instant {
        self.not_before
    }

    /// Publishes what changed, unless it is too early, and answers those whose effect is visible.
    pub(super) fn flush(&mut self, ledger: &mut Ledger<Reply, StoreError>) {
        if ledger.has_changed() {
            if Instant::now() < self.not_before {
                return;
            }
            self.publish(ledger);
        }
        for late in self.lag.published(clock::nanos()) {
            self.metrics.lag.observe(late);
        }
        self.notify(ledger.take_answers());
    }

    fn publish(&mut self, ledger: &mut Ledger<Reply, StoreError>) {
        let began = Instant::now();
        let last = self.current.load_full();
        let next = ledger.snapshot(&last);
        if next.health != last.health {
            tell_health(&next.health);
        }
        self.current.store(Arc::new(next));
        self.published.send_replace(());
        self.metrics.snapshots.inc();
        let ended = Instant::now();
        self.not_before = ended + (ended - began).saturating_mul(REST_PER_WORK).min(LONGEST_REST);
    }

    /// Who no longer listens is no loss.
    fn notify(&mut self, answers: Vec<Answer<Reply, StoreError>>) {
        for Answer { waiters, result } in answers {
            for Reply(waiter) in waiters {
                let _ = waiter.send(result.clone());
            }
        }
        for notice in self.notices.drain(..) {
            let _ = notice.send(());
        }
    }
}

fn tell_health(health: &EngineHealth) {
    match health {
        EngineHealth::Starting => {}
        EngineHealth::Reachable => info!("the docker engine is ready"),
        EngineHealth::Unreachable { reason } => {
            warn!(
                reason,
                "the docker engine is not ready; trying again, showing what was known last"
            );
        }
    }
}

/// Making snapshots takes at most a fifth of the writer's time.
const REST_PER_WORK: u32 = 4;
const LONGEST_REST: Duration = Duration::from_millis(100);

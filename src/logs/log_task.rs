//! The task of one log: polls the log on a thread whenever the engine may have written more.
//!
//! ```text
//!              woken, or due               permit free               poll ended
//!   waiting ───────────────────▶ queued ───────────────▶ polling ─────────────────▶ waiting
//!                                   ▲                       │ there is more
//!                                   └───────────────────────┘
//! ```
//!
//! Tasks get permits for polls in the order in which they queue, so a container that writes without end
//! delays each other log by at most one poll. A poll that hangs in a file system loses its permit to the next task.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::SemaphorePermit,
    task::{self, JoinError},
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, info, warn};

use super::{
    error::LogError,
    log_state::{LogState, NextPoll},
    poll::{Log, PollOutcome, PollRequest, ReadState, Shared},
};
use crate::{
    concurrency::{
        backoff::Backoff,
        blocking::{blocking, result_or_panic},
    },
    error::chain,
    model::id::ContainerId,
    telemetry::metric::GaugeGuard,
};

#[derive(Debug)]
pub(super) struct LogTask {
    state: Arc<LogState>,
    shared: Arc<Shared>,
    failures: u32,
    last_error: Option<String>,
    output_at: Option<Instant>,
    /// Whether the log is polled again soon, even without an event: see [`BUSY_WITHIN`].
    busy: bool,
    /// This log's part of the gauge of bytes that are not converted yet.
    behind: i64,
    _followed: GaugeGuard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// No pause: the log has more output, or its next poll sets a watch. Logs that already wait for a poll come before
    /// this log.
    None,
    Until(Instant),
    UntilWoken,
}

impl LogTask {
    pub(super) fn new(state: Arc<LogState>, shared: Arc<Shared>) -> Self {
        Self {
            state,
            _followed: GaugeGuard::of(shared.metrics.followed.clone()),
            shared,
            failures: 0,
            last_error: None,
            output_at: None,
            busy: false,
            behind: 0,
        }
    }

    /// Writes the log until its container is removed and the rest is written or lost, or until dockbridge shuts down.
    pub(super) async fn run(mut self, mut log: Log) {
        let (shared, state) = (Arc::clone(&self.shared), Arc::clone(&self.state));
        let mut pause = Pause::UntilWoken;
        loop {
            self.wait(pause).await;
            let Ok(permit) = shared.permits.acquire().await else { break };
            let Some(NextPoll { container, request, reopening }) = state.next_poll(self.busy)
            else {
                pause = Pause::UntilWoken;
                continue;
            };
            log.container = container.clone();
            pause = match poll(log, request, &shared, permit).await {
                Ok((polled, mut outcome)) => {
                    log = polled;
                    self.record(&log.container.id, request, &outcome);
                    if let Some(reopened) = outcome.reopened.take() {
                        let reopened = reopened.map_err(Arc::new);
                        // Sending fails if a caller no longer waits.
                        reopening.into_iter().for_each(|one| drop(one.send(reopened.clone())));
                    }
                    if request.removed && outcome.state != ReadState::More {
                        return shared.watches.remove(&state.wake);
                    }
                    state.report(request, &outcome);
                    self.pause_after(request, &outcome)
                }
                Err(error) => {
                    warn!(container = %container.id, %error, "internal error: panic while writing a container log; continuing from the saved position in Docker's log");
                    let saved = shared.positions.read(&container.id).unwrap_or_default();
                    log = Log::new(container, saved.position, Arc::clone(&state.wake));
                    self.failures = self.failures.saturating_add(1);
                    Pause::Until(Instant::now() + AFTER_PANIC)
                }
            };
        }
        blocking(move || match state.is_removed() {
            true => shared.positions.remove(&log.container.id),
            false => log.close(&shared.positions),
        })
        .await;
    }

    async fn wait(&self, pause: Pause) {
        let notified = self.state.wake.notified();
        match pause {
            Pause::None => {}
            Pause::UntilWoken => notified.await,
            Pause::Until(due) => tokio::select! {
                () = notified => {}
                () = sleep_until(due) => {}
            },
        }
    }

    fn record(&mut self, container: &ContainerId, request: PollRequest, outcome: &PollOutcome) {
        let metrics = &self.shared.metrics;
        metrics.converted.inc_by(outcome.bytes);
        // The task of a removed container ends after a failure, so the unread bytes of its log must not stay in the
        // gauge.
        let waits = outcome.error.is_some() && !request.removed;
        let is_behind = outcome.state == ReadState::More || waits;
        let behind = outcome.remaining.filter(|_| is_behind).unwrap_or(0);
        let behind = i64::try_from(behind).unwrap_or(i64::MAX);
        metrics.behind.inc_by(behind - self.behind);
        self.behind = behind;
        match &outcome.error {
            Some(error) => {
                metrics.errors.inc();
                self.record_failure(container, request, error, outcome.needs_no_retry(request));
            }
            None => {
                if self.last_error.take().is_some() {
                    info!(%container, "dockbridge can write the container log again");
                }
                self.failures = 0;
            }
        }
    }

    /// Logs no second warning while the error stays the same.
    fn record_failure(
        &mut self,
        container: &ContainerId,
        request: PollRequest,
        error: &LogError,
        needs_no_retry: bool,
    ) {
        let text = chain(error);
        self.failures = self.failures.saturating_add(1);
        if request.removed {
            // If the container was removed, an error is normal on the engine's file, not on the CRI file.
            if matches!(error, LogError::Target(_)) {
                warn!(%container, error = text, "container removed before its whole log was written; the rest of the log is lost");
            }
        } else if self.last_error.as_ref() == Some(&text) {
            debug!(%container, error = text, failures = self.failures, "still cannot write the container log");
        } else if needs_no_retry {
            warn!(%container, error = text, "Docker has no log file that dockbridge can read for the container; kubectl logs will not show the log");
            self.last_error = Some(text);
        } else if self.failures > 1 || !matches!(error, LogError::SourceAbsent { .. }) {
            // If the engine's log file was missing, the next try usually succeeds.
            warn!(%container, error = text, "cannot write the container log; retrying");
            self.last_error = Some(text);
        }
    }

    fn pause_after(&mut self, request: PollRequest, outcome: &PollOutcome) -> Pause {
        let now = Instant::now();
        if outcome.error.is_some() {
            let retry = now + Backoff::new(FIRST_RETRY, LONGEST_RETRY).after(self.failures);
            let needs_no_retry = outcome.needs_no_retry(request);
            return if needs_no_retry { Pause::UntilWoken } else { Pause::Until(retry) };
        }
        let is_recent = self.output_at.is_some_and(|at| now.duration_since(at) < BUSY_WITHIN);
        let has_output = outcome.bytes > 0;
        self.busy = has_output && (is_recent || outcome.bytes >= BUSY_BYTES);
        if has_output {
            self.output_at = Some(now);
        }
        match outcome.state {
            ReadState::More => Pause::None,
            ReadState::Complete => Pause::UntilWoken,
            ReadState::CaughtUp if self.busy => Pause::Until(now + POLL_INTERVAL),
            // The container no longer writes often, so the next poll sets a watch on its file.
            ReadState::CaughtUp if request.busy => Pause::None,
            ReadState::CaughtUp if outcome.is_watched => Pause::UntilWoken,
            ReadState::CaughtUp => Pause::Until(now + UNWATCHED_POLL_INTERVAL),
        }
    }
}

/// Polls the log on a thread. Releases the permit when the poll ends, or when it takes longer than the limit.
///
/// # Errors
/// The poll has panicked, and its [`Log`] is lost.
async fn poll(
    mut log: Log,
    request: PollRequest,
    shared: &Arc<Shared>,
    permit: SemaphorePermit<'_>,
) -> Result<(Log, PollOutcome), JoinError> {
    let container = log.container.clone();
    let shared = Arc::clone(shared);
    let limit = shared.poll_limit;
    let mut polling = task::spawn_blocking(move || {
        let outcome = log.poll(request, &shared);
        (log, outcome)
    });
    if let Ok(polled) = timeout(limit, &mut polling).await {
        return result_or_panic(polled).await;
    }
    drop(permit);
    warn!(
        container = %container.id, directory = %container.target.root().display(),
        "a container log takes long to read or write; other logs no longer wait for it"
    );
    let polled = result_or_panic(polling.await).await;
    info!(container = %container.id, "the slow read or write of the container log has ended");
    polled
}

/// A log is busy if the last poll found output, and either an earlier poll within [`BUSY_WITHIN`] did so, or the output
/// has at least [`BUSY_BYTES`]. A busy log is polled without events, because an event for each line would cost more.
const BUSY_WITHIN: Duration = Duration::from_millis(100);
const BUSY_BYTES: u64 = 64 * 1024;
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How often a log that is not busy is polled if its file cannot be watched.
const UNWATCHED_POLL_INTERVAL: Duration = Duration::from_millis(500);
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// The longest pause between two retries, for example while a disk is full.
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// How long after a panic in its poll a log is polled again, if no event wakes its task earlier.
const AFTER_PANIC: Duration = Duration::from_secs(1);

//! The task of one log: polls it on a thread whenever there may be more, and waits in between.
//!
//! ```text
//!              woken, or due                place free               poll over
//!   waiting ───────────────────▶ queued ───────────────▶ polling ─────────────────▶ waiting
//!                                   ▲                       │ there is more
//!                                   └───────────────────────┘
//! ```
//!
//! Places for polls are given in the order in which tasks queue for them, and a log that has more
//! queues behind the others: a container that writes without end delays them by one poll each. A poll
//! that hangs in a file system loses its place to the next one.

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
    poll::{Log, PollOutcome, PollRequest, ReadState, Tools},
};
use crate::{
    concurrency::{backoff::Backoff, blocking::blocking},
    error::chain,
    model::id::ContainerId,
    telemetry::metric::GaugeGuard,
};

#[derive(Debug)]
pub(super) struct LogTask {
    state: Arc<LogState>,
    tools: Arc<Tools>,
    failures: u32,
    trouble: Option<String>,
    moved_at: Option<Instant>,
    /// The container writes often, so the log is polled again soon without an event.
    busy: bool,
    /// Bytes that waited after the last poll.
    behind: i64,
    _followed: GaugeGuard,
}

/// What follows a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// There is more: another poll when all waiting logs have had theirs.
    None,
    /// Another poll at this time, or when it is woken.
    Until(Instant),
    /// None until it is woken.
    Asleep,
}

impl LogTask {
    pub(super) fn new(state: Arc<LogState>, tools: Arc<Tools>) -> Self {
        Self {
            state,
            _followed: GaugeGuard::of(tools.metrics.followed.clone()),
            tools,
            failures: 0,
            trouble: None,
            moved_at: None,
            busy: false,
            behind: 0,
        }
    }

    /// Writes the log until its container is removed, or until no more polls are begun.
    pub(super) async fn run(mut self, mut log: Log) {
        let (tools, state) = (Arc::clone(&self.tools), Arc::clone(&self.state));
        let mut pause = Pause::Asleep;
        loop {
            self.wait(pause).await;
            let Ok(place) = tools.places.acquire().await else { break };
            let Some(NextPoll { container, request, reopening }) = state.next_poll(self.busy)
            else {
                pause = Pause::Asleep;
                continue;
            };
            log.container = container.clone();
            pause = match poll(log, request, &tools, place).await {
                Ok((polled, mut outcome)) => {
                    log = polled;
                    self.note(&log.container.id, request, &outcome);
                    if let Some(reopened) = outcome.reopened.take() {
                        let reopened = reopened.map_err(Arc::new);
                        // A caller may have gone.
                        reopening.into_iter().for_each(|one| drop(one.send(reopened.clone())));
                    }
                    if request.leave && outcome.state != ReadState::More {
                        return tools.watches.remove(&state.woken);
                    }
                    state.report(request, &outcome);
                    self.pause_after(request, &outcome)
                }
                Err(error) => {
                    warn!(container = %container.id, %error, "internal error: panic while writing a container log; continuing from its saved position");
                    let saved = tools.positions.read(&container.id).unwrap_or_default();
                    log = Log::new(container, saved.position, Arc::clone(&state.woken));
                    self.failures = self.failures.saturating_add(1);
                    Pause::Until(Instant::now() + AFTER_A_BUG)
                }
            };
        }
        blocking(move || match state.is_removed() {
            true => tools.positions.remove(&log.container.id),
            false => log.close(&tools.positions),
        })
        .await;
    }

    async fn wait(&self, pause: Pause) {
        let woken = self.state.woken.notified();
        match pause {
            Pause::None => {}
            Pause::Asleep => woken.await,
            Pause::Until(due) => tokio::select! {
                () = woken => {}
                () = sleep_until(due) => {}
            },
        }
    }

    fn note(&mut self, container: &ContainerId, request: PollRequest, outcome: &PollOutcome) {
        let metrics = &self.tools.metrics;
        metrics.converted.inc_by(outcome.moved);
        let behind = outcome.left.filter(|_| outcome.state == ReadState::More).unwrap_or(0);
        let behind = i64::try_from(behind).unwrap_or(i64::MAX);
        metrics.behind.inc_by(behind - self.behind);
        self.behind = behind;
        match &outcome.error {
            Some(error) => {
                metrics.errors.inc();
                self.note_failure(container, request, error);
            }
            None => {
                if self.trouble.take().is_some() {
                    info!(%container, "writing the container log again");
                }
                self.failures = 0;
            }
        }
    }

    /// Logs one line for each change of state, not one for each try.
    fn note_failure(&mut self, container: &ContainerId, request: PollRequest, error: &LogError) {
        let text = chain(error);
        self.failures = self.failures.saturating_add(1);
        if request.leave {
            // An error of the engine is normal, because the container is gone. An error of the CRI file is not.
            if matches!(error, LogError::Target(_)) {
                warn!(%container, error = text, "container removed before its whole log was written; the rest is lost");
            }
        } else if self.trouble.as_ref() == Some(&text) {
            debug!(%container, error = text, failures = self.failures, "still cannot write the container log");
        } else if !(self.failures == 1 && is_passing(error)) {
            warn!(%container, error = text, "cannot write the container log; retrying");
            self.trouble = Some(text);
        }
    }

    fn pause_after(&mut self, request: PollRequest, outcome: &PollOutcome) -> Pause {
        let now = Instant::now();
        if outcome.error.is_some() {
            let rest = now + Backoff::new(FIRST_REST, LONGEST_REST).after(self.failures);
            return if outcome.is_hopeless() { Pause::Asleep } else { Pause::Until(rest) };
        }
        let moved_just_now = self.moved_at.is_some_and(|at| now.duration_since(at) < BUSY_WITHIN);
        let moved = outcome.moved > 0;
        self.busy = moved && (moved_just_now || outcome.moved >= BUSY_BYTES);
        if moved {
            self.moved_at = Some(now);
        }
        match outcome.state {
            ReadState::More => Pause::None,
            ReadState::Complete => Pause::Asleep,
            ReadState::CaughtUp if self.busy => Pause::Until(now + POLL),
            // The container no longer writes often: the next poll sets the watch.
            ReadState::CaughtUp if request.busy => Pause::None,
            ReadState::CaughtUp if outcome.is_watched => Pause::Asleep,
            ReadState::CaughtUp => Pause::Until(now + UNWATCHED),
        }
    }
}

/// Polls the log on a thread. The place is free again when this returns, or when the poll is late.
///
/// # Errors
/// The poll panicked; the log is lost with it.
async fn poll(
    mut log: Log,
    request: PollRequest,
    tools: &Arc<Tools>,
    place: SemaphorePermit<'_>,
) -> Result<(Log, PollOutcome), JoinError> {
    let container = log.container.clone();
    let tools = Arc::clone(tools);
    let limit = tools.poll_limit;
    let mut polling = task::spawn_blocking(move || {
        let outcome = log.poll(request, &tools);
        (log, outcome)
    });
    if let Ok(polled) = timeout(limit, &mut polling).await {
        return polled;
    }
    drop(place);
    warn!(
        container = %container.id, directory = %container.target.root().display(),
        "cannot write the container log: the file system of its directory does not answer; other \
         logs are not affected"
    );
    let polled = polling.await;
    info!(container = %container.id, "the file system of the container log answers again");
    polled
}

/// Whether it usually passes by the next try.
const fn is_passing(error: &LogError) -> bool {
    matches!(error, LogError::Interrupted | LogError::SourceAbsent { .. })
}

/// A log written to within this time is polled again without an event, and so is one that grew by
/// this much: many lines at once cost one poll, and no event each.
const BUSY_WITHIN: Duration = Duration::from_millis(100);
const BUSY_BYTES: u64 = 64 * 1024;
/// How long a busy log is left alone.
const POLL: Duration = Duration::from_millis(10);
/// How often a log without events is polled.
const UNWATCHED: Duration = Duration::from_millis(500);
const FIRST_REST: Duration = Duration::from_millis(100);
/// A disk that was full is noticed to have room again within this time.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// When a log whose poll panicked is polled again.
const AFTER_A_BUG: Duration = Duration::from_secs(1);

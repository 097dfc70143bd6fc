//! One poll of a container's log. A poll runs on a thread that owns the [`Log`] during the poll.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tracing::warn;

use super::{
    convert::Buffers,
    error::LogError,
    json_file_tailer::{JsonFileTailer, ReadProgress},
    logged_container::LoggedContainer,
    metrics::LogMetrics,
    position::Position,
    position_store::{PositionStore, Saved},
    watches::Watches,
};
use crate::model::time::Nanos;

/// A container's log, which dockbridge writes to a CRI file.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) container: LoggedContainer,
    tailer: Option<Box<JsonFileTailer>>,
    /// The position at which the next tailer starts.
    position: Option<Position>,
    saved_at: Instant,
    generation: u64,
    wake: Arc<Notify>,
}

/// The state that the polls of all logs share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) positions: PositionStore,
    pub(super) watches: Watches,
    pub(super) metrics: LogMetrics,
    /// Limits how many polls, except hanging ones, run at the same time. Closed once no more polls may start.
    pub(super) permits: Semaphore,
    /// How long a poll may run before it counts as hanging.
    pub(super) poll_limit: Duration,
    buffers: Mutex<Vec<Buffers>>,
    #[cfg(test)]
    pub(super) panics: std::sync::atomic::AtomicBool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PollRequest {
    /// Whether to open or create a new CRI file, because kubelet has renamed the old one.
    pub(super) reopen: bool,
    /// The start time of the latest run, if that run has ended; `i64::MAX` if the end was not seen before a removal.
    pub(super) ended: Option<Nanos>,
    /// Whether the whole log of the ended run was already written, or cannot be written.
    pub(super) complete: bool,
    /// Whether the container no longer exists, so that its saved position may be removed.
    pub(super) removed: bool,
    /// Whether the log is busy, so that the poll sets no watch.
    pub(super) busy: bool,
}

#[derive(Debug, Default)]
pub(super) struct PollOutcome {
    /// How many bytes of the engine's log were converted, or in a search compared with the CRI file.
    pub(super) bytes: u64,
    pub(super) state: ReadState,
    pub(super) opened: bool,
    /// Whether a watch wakes the log's task when the engine writes more.
    pub(super) is_watched: bool,
    pub(super) reopened: Option<Result<(), LogError>>,
    pub(super) error: Option<LogError>,
    /// How many bytes of the engine's files are not converted yet, if known.
    pub(super) remaining: Option<u64>,
}

/// How far a poll has read a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReadState {
    More,
    #[default]
    CaughtUp,
    /// The poll has read the whole log, and the container has ended.
    Complete,
}

impl Shared {
    pub(super) fn new(
        positions: PositionStore,
        watches: Watches,
        metrics: LogMetrics,
        poll_limit: Duration,
    ) -> Self {
        Self {
            positions,
            watches,
            metrics,
            permits: Semaphore::new(CONCURRENT_POLLS),
            poll_limit,
            buffers: Mutex::default(),
            #[cfg(test)]
            panics: std::sync::atomic::AtomicBool::new(false),
        }
    }
}

impl Log {
    pub(super) fn new(
        container: LoggedContainer,
        position: Option<Position>,
        wake: Arc<Notify>,
    ) -> Self {
        let saved_at = Instant::now();
        Self { container, tailer: None, position, saved_at, generation: 0, wake }
    }

    /// Reads, converts and writes a piece of the log, at most a few MiB. Blocks the thread.
    pub(super) fn poll(&mut self, request: PollRequest, shared: &Shared) -> PollOutcome {
        #[cfg(test)]
        assert!(!shared.panics.swap(false, std::sync::atomic::Ordering::SeqCst), "a test's panic");
        let mut outcome = PollOutcome::default();
        let mut buffers = shared.buffers.lock().pop().unwrap_or_default();
        let has_work = !request.complete || request.reopen;
        if has_work && let Err(error) = self.write(request, shared, &mut buffers, &mut outcome) {
            if request.reopen && outcome.reopened.is_none() {
                outcome.reopened = Some(Err(error));
            } else {
                outcome.error = Some(error);
            }
        }
        shared.buffers.lock().push(buffers);
        self.report_losses(&shared.metrics);
        let is_caught_up = outcome.state == ReadState::CaughtUp && request.ended.is_some();
        if is_caught_up || outcome.state == ReadState::More || outcome.error.is_some() {
            outcome.remaining = self.tailer.as_ref().and_then(|tailer| tailer.left());
        }
        self.keep_position(request, shared, &outcome);
        outcome
    }

    /// Closes the log's files and saves the log's position, if the files are open.
    pub(super) fn close(self, positions: &PositionStore) {
        if let Some(tailer) = self.tailer {
            positions.save(&self.container.id, &Saved::new(Some(tailer.position()), None));
        }
    }

    fn write(
        &mut self,
        request: PollRequest,
        shared: &Shared,
        buffers: &mut Buffers,
        outcome: &mut PollOutcome,
    ) -> Result<(), LogError> {
        let tailer = match self.tailer.take() {
            Some(tailer) => tailer,
            // The engine has removed the container's log, and kubelet may have removed the CRI file.
            None if request.removed => return Ok(()),
            None => self.open()?,
        };
        let tailer = self.tailer.insert(tailer);
        outcome.opened = true;
        if request.reopen {
            outcome.reopened = Some(tailer.reopen());
        }
        record(tailer.step(buffers)?, outcome);
        let idle = outcome.state == ReadState::CaughtUp && !request.busy && request.ended.is_none();
        if idle && let Some(source) = &self.container.source {
            outcome.is_watched = shared.watches.set(source, &self.wake);
            // Reads once more, because output from before the watch was set causes no event.
            record(tailer.step(buffers)?, outcome);
        }
        if outcome.state == ReadState::CaughtUp && request.ended.is_some() {
            outcome.state = ReadState::Complete;
        }
        Ok(())
    }

    fn open(&self) -> Result<Box<JsonFileTailer>, LogError> {
        let LoggedContainer { target, created_at, .. } = &self.container;
        let (source, position) = (self.container.source()?, self.position.clone());
        JsonFileTailer::resume(source, target.clone(), position, *created_at).map(Box::new)
    }

    /// Saves the position from time to time, after a change to another file, a search or a reopening, and when the log
    /// is complete. Removes the position of a removed container once its log has no more output or a poll fails.
    fn keep_position(&mut self, request: PollRequest, shared: &Shared, outcome: &PollOutcome) {
        let complete = request.ended.filter(|_| outcome.state == ReadState::Complete);
        if request.removed && outcome.state != ReadState::More {
            self.tailer = None;
            return shared.positions.remove(&self.container.id);
        }
        let Some(tailer) = &self.tailer else { return };
        let (generation, now) = (tailer.generation, Instant::now());
        let must_save = generation != self.generation || outcome.reopened.is_some();
        let is_due = outcome.bytes > 0 && now.duration_since(self.saved_at) >= SAVE_EVERY;
        if must_save || is_due || complete.is_some() {
            self.position = Some(tailer.position());
            (self.generation, self.saved_at) = (generation, now);
            shared.positions.save(&self.container.id, &Saved::new(self.position.clone(), complete));
        }
        if complete.is_some() {
            self.tailer = None;
        }
    }

    fn report_losses(&mut self, metrics: &LogMetrics) {
        let Some(tailer) = &mut self.tailer else { return };
        let losses = tailer.take_losses();
        if losses.unreadable > 0 {
            metrics.lost.with(["lines"]).inc_by(losses.unreadable);
            warn!(
                container = %self.container.id, lines = losses.unreadable,
                "cannot parse lines of Docker's log of a container; skipping them"
            );
        }
        if losses.gaps > 0 {
            metrics.lost.with(["files"]).inc_by(losses.gaps);
            warn!(
                container = %self.container.id, gaps = losses.gaps,
                "Docker's log files of a container may have been removed or truncated before they were read; lines may be missing"
            );
        }
    }
}

fn record(step: ReadProgress, outcome: &mut PollOutcome) {
    outcome.state = if step.has_more { ReadState::More } else { ReadState::CaughtUp };
    outcome.bytes = outcome.bytes.saturating_add(step.bytes);
}

/// The shortest time between two regular saves of a position. After a crash of dockbridge, the output
/// since the last save is read again.
const SAVE_EVERY: Duration = Duration::from_secs(5);
/// More polls at the same time would take processor time from the containers.
const CONCURRENT_POLLS: usize = 2;

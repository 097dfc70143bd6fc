//! The state that the task of a log shares with its callers: their requests, and the log's progress.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use super::{
    error::LogError,
    logged_container::{LoggedContainer, RunState},
    poll::{PollOutcome, PollRequest, ReadState},
    progress::Progress,
};
use crate::model::time::Nanos;

#[derive(Debug)]
pub(super) struct LogState {
    /// Wakes the log's task, for example when the engine's file has changed, or when a caller has a request.
    pub(super) wake: Arc<Notify>,
    wanted: Mutex<Wanted>,
}

#[derive(Debug)]
struct Wanted {
    container: LoggedContainer,
    /// The start time of the latest run, if that run has ended. `i64::MAX` if the container was removed before
    /// dockbridge saw the end.
    ended: Option<Nanos>,
    /// The start time of the run whose whole log was written, or cannot be written, if there is one.
    complete: Option<Nanos>,
    reopen: Vec<oneshot::Sender<Result<(), Arc<LogError>>>>,
    is_removed: bool,
    progress: watch::Sender<Progress>,
}

/// The request of the next poll, and the callers that wait for the CRI file to be reopened.
#[derive(Debug)]
pub(super) struct NextPoll {
    pub(super) container: LoggedContainer,
    pub(super) request: PollRequest,
    pub(super) reopening: Vec<oneshot::Sender<Result<(), Arc<LogError>>>>,
}

impl LogState {
    /// A log to which this process has not written yet. `complete` is the start time of the run whose whole log an
    /// earlier process wrote, if there is one.
    pub(super) fn new(container: LoggedContainer, complete: Option<Nanos>) -> Self {
        let progress =
            Progress { ended: complete, complete: complete.is_some(), ..Progress::default() };
        let wanted = Wanted {
            container,
            ended: complete,
            complete,
            reopen: Vec::new(),
            is_removed: false,
            progress: watch::Sender::new(progress),
        };
        let wake = Arc::new(Notify::new());
        if complete.is_none() {
            wake.notify_one();
        }
        Self { wake, wanted: Mutex::new(wanted) }
    }

    pub(super) fn observe(
        &self,
        container: LoggedContainer,
        run: RunState,
    ) -> watch::Receiver<Progress> {
        let mut wanted = self.wanted.lock();
        wanted.container = container;
        let changed = match run {
            // A later run continues the same log, so an earlier end that was not seen changes nothing. An equal
            // start comes from an old inspect of the run that has ended.
            RunState::InProgress(start) if wanted.ended.is_none_or(|ended| ended == start) => None,
            RunState::InProgress(_) => Some(None),
            RunState::Ended(start) if wanted.ended == Some(start) => None,
            RunState::Ended(start) => Some(Some(start)),
        };
        if let Some(ended) = changed {
            (wanted.ended, wanted.complete) = (ended, None);
            wanted.progress.send_modify(|now| {
                *now = Progress { ended, complete: false, given_up: false, ..*now };
            });
            self.wake.notify_one();
        }
        wanted.progress.subscribe()
    }

    /// Records that a caller has stopped waiting for the log of this run. Later callers do not wait for this run's log.
    pub(super) fn give_up(&self, run: Nanos) {
        self.wanted.lock().progress.send_modify(|now| now.given_up |= now.ended == Some(run));
    }

    pub(super) fn reopen(&self, reply: oneshot::Sender<Result<(), Arc<LogError>>>) {
        self.wanted.lock().reopen.push(reply);
        self.wake.notify_one();
    }

    /// Records that the container was removed. The returned channel closes together with the log.
    pub(super) fn mark_removed(&self) -> watch::Receiver<Progress> {
        let mut wanted = self.wanted.lock();
        wanted.is_removed = true;
        wanted.ended.get_or_insert(Nanos(i64::MAX));
        self.wake.notify_one();
        wanted.progress.subscribe()
    }

    pub(super) fn is_removed(&self) -> bool {
        self.wanted.lock().is_removed
    }

    /// The next poll; None for a complete log without requests.
    pub(super) fn next_poll(&self, busy: bool) -> Option<NextPoll> {
        let mut wanted = self.wanted.lock();
        let complete = wanted.ended.is_some() && wanted.ended == wanted.complete;
        if complete && wanted.reopen.is_empty() && !wanted.is_removed {
            return None;
        }
        let reopening = std::mem::take(&mut wanted.reopen);
        let request = PollRequest {
            reopen: !reopening.is_empty(),
            ended: wanted.ended,
            complete,
            removed: wanted.is_removed,
            busy,
        };
        Some(NextPoll { container: wanted.container.clone(), request, reopening })
    }

    /// Records the result of a poll, and reports it to the callers that follow the log's progress.
    pub(super) fn report(&self, request: PollRequest, outcome: &PollOutcome) {
        let mut wanted = self.wanted.lock();
        if outcome.needs_no_retry(request) || outcome.state == ReadState::Complete {
            wanted.complete = request.ended;
        }
        let complete = wanted.ended.is_some() && wanted.ended == wanted.complete;
        wanted.progress.send_modify(|progress| {
            progress.opened |= outcome.opened;
            progress.bytes = progress.bytes.saturating_add(outcome.bytes);
            progress.complete = complete;
            progress.remaining = outcome.remaining;
        });
    }
}

impl PollOutcome {
    /// Whether retrying is useless: the engine writes no log file, or the container has ended and the file is missing.
    pub(super) fn needs_no_retry(&self, request: PollRequest) -> bool {
        match self.error {
            Some(LogError::NoSource { .. }) => true,
            Some(LogError::SourceAbsent { .. }) => request.ended.is_some(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{logs::log_path::LogPath, model::id::ContainerId};

    fn log() -> (LogState, LoggedContainer) {
        let container = LoggedContainer {
            id: ContainerId::try_from("a".repeat(64)).unwrap(),
            source: None,
            driver: "local".to_owned(),
            target: LogPath::of(Path::new("/logs/pod/main/0.log"), None).unwrap(),
            created_at: Nanos(1),
        };
        (LogState::new(container.clone(), None), container)
    }

    /// The caller that waits for the log of the first run may time out when the second run has already ended.
    #[test]
    fn giving_up_a_run_does_not_give_up_the_next_one() {
        let (state, container) = log();
        let progress = state.observe(container.clone(), RunState::Ended(Nanos(1)));
        state.observe(container.clone(), RunState::InProgress(Nanos(2)));
        state.observe(container, RunState::Ended(Nanos(2)));
        state.give_up(Nanos(1));
        assert!(!progress.borrow().given_up);
        state.give_up(Nanos(2));
        assert!(progress.borrow().given_up);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_run_after_the_next_one_was_seen() {
        let (state, container) = log();
        let progress = state.observe(container.clone(), RunState::Ended(Nanos(1)));
        let waiting = tokio::spawn(crate::logs::progress::completion(progress, Nanos(1)));
        tokio::task::yield_now().await;
        state.observe(container, RunState::InProgress(Nanos(2)));
        assert_eq!(waiting.await.unwrap(), Ok(()));
    }
}

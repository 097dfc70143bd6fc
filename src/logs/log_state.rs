//! The state that the task of a log shares with its callers: what they want, and the log's progress.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use super::{
    error::LogError,
    logged_container::{LoggedContainer, RunState},
    poll::{PollOutcome, PollRequest, ReadState},
    progress::Progress,
};
use crate::{
    error::{Kind, WithKind},
    model::time::Nanos,
};

/// A log that is written now, or was written.
#[derive(Debug)]
pub(super) struct LogState {
    /// The engine's file has changed, or a caller wants something.
    pub(super) wake: Arc<Notify>,
    wanted: Mutex<Wanted>,
}

#[derive(Debug)]
struct Wanted {
    container: LoggedContainer,
    /// The start of the run that has ended, if one has.
    ended: Option<Nanos>,
    complete: Option<Nanos>,
    reopen: Vec<oneshot::Sender<Result<(), Arc<LogError>>>>,
    is_removed: bool,
    progress: watch::Sender<Progress>,
}

/// The next poll, and the callers that wait for it.
#[derive(Debug)]
pub(super) struct NextPoll {
    pub(super) container: LoggedContainer,
    pub(super) request: PollRequest,
    pub(super) reopening: Vec<oneshot::Sender<Result<(), Arc<LogError>>>>,
}

impl LogState {
    /// A log to which this process has not written yet. `complete` is a run whose whole log an earlier
    /// process has written.
    pub(super) fn new(container: LoggedContainer, complete: Option<Nanos>) -> Self {
        let progress = Progress { complete: complete.is_some(), ..Progress::default() };
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
            // The log of a later run continues the log of an earlier one.
            RunState::InProgress(start) if wanted.ended.is_none_or(|ended| ended == start) => None,
            RunState::InProgress(_) => Some(None),
            RunState::Ended(start) if wanted.ended == Some(start) => None,
            RunState::Ended(start) => Some(Some(start)),
        };
        if let Some(ended) = changed {
            (wanted.ended, wanted.complete) = (ended, None);
            wanted.progress.send_modify(|now| (now.complete, now.given_up) = (false, false));
            self.wake.notify_one();
        }
        wanted.progress.subscribe()
    }

    /// Callers no longer wait for the log of this run.
    pub(super) fn give_up(&self) {
        self.wanted.lock().progress.send_modify(|now| now.given_up = true);
    }

    pub(super) fn reopen(&self, reply: oneshot::Sender<Result<(), Arc<LogError>>>) {
        self.wanted.lock().reopen.push(reply);
        self.wake.notify_one();
    }

    /// The container was removed. The returned channel closes when its log is closed.
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

    /// The next poll of a log, which is `busy` or not. None if there is nothing to do: a complete log is
    /// not polled, because the engine may be removing its files.
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

    /// Reports the result of a poll to the waiting callers.
    pub(super) fn report(&self, request: PollRequest, outcome: &PollOutcome) {
        let mut wanted = self.wanted.lock();
        if outcome.is_hopeless() || outcome.state == ReadState::Complete {
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
    /// Whether a retry is useless: the engine has no readable log, or the container is gone.
    pub(super) fn is_hopeless(&self) -> bool {
        match &self.error {
            Some(LogError::Engine(error)) => {
                matches!(error.kind(), Kind::NotFound | Kind::Unimplemented)
            }
            _ => false,
        }
    }
}

//! What the task of a log and its callers share: what is wanted of the log, and how far it is.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use super::{
    error::LogError,
    logged_container::{LoggedContainer, RunState},
    poll::{PollOutcome, PollRequest, ReadState},
    progress::Progress,
};
use crate::{error::Kind, model::time::Nanos};

/// A log that is being written, or was.
#[derive(Debug)]
pub(super) struct LogState {
    /// Something has happened to the engine's file, or the callers want something.
    pub(super) woken: Arc<Notify>,
    wanted: Mutex<Wanted>,
}

#[derive(Debug)]
struct Wanted {
    container: LoggedContainer,
    /// The run that has ended.
    over: Option<Nanos>,
    complete: Option<Nanos>,
    /// The run whose end was shown before its log was complete.
    given_up: Option<Nanos>,
    reopen: Vec<oneshot::Sender<Result<(), Arc<LogError>>>>,
    is_removed: bool,
    progress: watch::Sender<Progress>,
}

/// How to follow the progress of a log.
#[derive(Debug)]
pub(super) struct ObserveReply {
    pub(super) progress: watch::Receiver<Progress>,
    /// Whether its completion is worth waiting for.
    pub(super) worth_waiting: bool,
}

/// The next poll, and who waits for it.
#[derive(Debug)]
pub(super) struct NextPoll {
    pub(super) container: LoggedContainer,
    pub(super) request: PollRequest,
    pub(super) reopening: Vec<oneshot::Sender<Result<(), Arc<LogError>>>>,
}

impl LogState {
    /// A log of which nothing was written by this process yet. With `complete`, an earlier process
    /// wrote all of that run.
    pub(super) fn new(container: LoggedContainer, complete: Option<Nanos>) -> Self {
        let progress = Progress { complete: complete.is_some(), ..Progress::default() };
        let wanted = Wanted {
            container,
            over: complete,
            complete,
            given_up: None,
            reopen: Vec::new(),
            is_removed: false,
            progress: watch::Sender::new(progress),
        };
        let woken = Arc::new(Notify::new());
        if complete.is_none() {
            woken.notify_one();
        }
        Self { woken, wanted: Mutex::new(wanted) }
    }

    pub(super) fn observe(&self, container: LoggedContainer, run: RunState) -> ObserveReply {
        let mut wanted = self.wanted.lock();
        wanted.container = container;
        let changed = match run {
            // The log of a later run continues that of an earlier one.
            RunState::InProgress(start) if wanted.over.is_none_or(|over| over == start) => None,
            RunState::InProgress(_) => Some(None),
            RunState::Over(start) if wanted.over == Some(start) => None,
            RunState::Over(start) => Some(Some(start)),
        };
        if let Some(over) = changed {
            (wanted.over, wanted.complete) = (over, None);
            wanted.progress.send_modify(|now| now.complete = false);
            self.woken.notify_one();
        }
        let over = wanted.over;
        let worth_waiting = over.is_some() && over != wanted.complete && over != wanted.given_up;
        ObserveReply { progress: wanted.progress.subscribe(), worth_waiting }
    }

    /// From now on nobody waits for the log of this run.
    pub(super) fn give_up(&self) {
        let mut wanted = self.wanted.lock();
        wanted.given_up = wanted.over;
    }

    pub(super) fn reopen(&self, reply: oneshot::Sender<Result<(), Arc<LogError>>>) {
        self.wanted.lock().reopen.push(reply);
        self.woken.notify_one();
    }

    /// The container was removed. Returns what is closed when its log is closed.
    pub(super) fn leave(&self) -> watch::Receiver<Progress> {
        let mut wanted = self.wanted.lock();
        wanted.is_removed = true;
        wanted.over.get_or_insert(Nanos(i64::MAX));
        self.woken.notify_one();
        wanted.progress.subscribe()
    }

    pub(super) fn is_removed(&self) -> bool {
        self.wanted.lock().is_removed
    }

    /// The next poll of a log that is `busy` or not. None if there is nothing to do: a log that is
    /// complete is not searched for among files that the engine is removing.
    pub(super) fn next_poll(&self, busy: bool) -> Option<NextPoll> {
        let mut wanted = self.wanted.lock();
        let complete = wanted.over.is_some() && wanted.over == wanted.complete;
        if complete && wanted.reopen.is_empty() && !wanted.is_removed {
            return None;
        }
        let reopening = std::mem::take(&mut wanted.reopen);
        let request = PollRequest {
            reopen: !reopening.is_empty(),
            over: wanted.over,
            complete,
            leave: wanted.is_removed,
            busy,
        };
        Some(NextPoll { container: wanted.container.clone(), request, reopening })
    }

    /// Tells the callers that wait what a poll has done.
    pub(super) fn report(&self, request: PollRequest, outcome: &PollOutcome) {
        let mut wanted = self.wanted.lock();
        if outcome.is_hopeless() || outcome.state == ReadState::Complete {
            wanted.complete = request.over;
        }
        let complete = wanted.over.is_some() && wanted.over == wanted.complete;
        wanted.progress.send_modify(|progress| {
            progress.opened |= outcome.opened;
            progress.moved = progress.moved.saturating_add(outcome.moved);
            progress.complete = complete;
            progress.left = outcome.left;
        });
    }
}

impl PollOutcome {
    /// Whether another try is in vain: the engine keeps nothing that could be read, or the
    /// container is gone.
    pub(super) fn is_hopeless(&self) -> bool {
        match &self.error {
            Some(LogError::Engine(error)) => {
                matches!(error.kind(), Kind::NotFound | Kind::Unimplemented)
            }
            _ => false,
        }
    }
}

//! The state of one log between polls: requests to it, progress, failures, and what follows a poll.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use tracing::{debug, info, warn};

use super::{
    error::LogError,
    logged_container::{LoggedContainer, RunState},
    poll::{Log, PollOutcome, PollRequest, ReadState},
    position_store::{PositionStore, Saved},
    progress::Progress,
    scheduler::NextPoll,
};
use crate::{
    error::{Kind, chain},
    host::tail_watch::WatchedFile,
    model::time::Nanos,
};

/// A log that is being written, or was.
#[derive(Debug)]
pub(super) struct LogState {
    /// None while a thread has it.
    pub(super) log: Option<Box<Log>>,
    /// The watch that was set last.
    pub(super) tail: Option<WatchedFile>,
    /// What the poll under way, or the last one, was for.
    running: PollRequest,
    over: Option<Nanos>,
    complete: Option<Nanos>,
    /// The run whose end was shown before its log was complete.
    given_up: Option<Nanos>,
    reopen: Vec<oneshot::Sender<Reopened>>,
    reopening: Vec<oneshot::Sender<Reopened>>,
    leaving: Vec<oneshot::Sender<()>>,
    progress: watch::Sender<Progress>,
    failures: u32,
    trouble: Option<String>,
    moved_at: Option<Instant>,
    busy: bool,
    /// Bytes that waited after the last poll.
    pub(super) behind: u64,
}

/// What became of a request for a new file.
#[derive(Clone, Debug)]
pub(super) struct Reopened(pub(super) Result<(), Arc<LogError>>);

/// What follows from a poll.
#[derive(Debug)]
pub(super) enum AfterPoll {
    Stay(NextPoll),
    /// Nothing is left of it.
    Gone,
}

impl LogState {
    /// A log of which nothing was written by this process yet.
    pub(super) fn new(container: LoggedContainer, saved: Saved) -> Self {
        let progress = Progress { complete: saved.complete.is_some(), ..Progress::default() };
        Self {
            log: Some(Box::new(Log::new(container, saved.position))),
            tail: None,
            running: PollRequest::default(),
            over: saved.complete,
            complete: saved.complete,
            given_up: None,
            reopen: Vec::new(),
            reopening: Vec::new(),
            leaving: Vec::new(),
            progress: watch::Sender::new(progress),
            failures: 0,
            trouble: None,
            moved_at: None,
            busy: false,
            behind: 0,
        }
    }

    /// The container was inspected. Returns whether there is something to do.
    pub(super) fn observe(&mut self, container: LoggedContainer, run: RunState) -> bool {
        if let Some(log) = &mut self.log {
            log.container = container;
        }
        let started = match run {
            // A log of an earlier run goes on with a later one.
            RunState::InProgress(start) if self.over.is_none() || self.over == Some(start) => None,
            RunState::InProgress(_) => Some(None),
            RunState::Over(start) if self.over == Some(start) => None,
            RunState::Over(start) => Some(Some(start)),
        };
        if let Some(over) = started {
            (self.over, self.complete) = (over, None);
            self.progress.send_modify(|now| now.complete = false);
        }
        started.is_some()
    }

    /// For callers that wait until the log exists, or is complete.
    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Whether anybody should wait for the log of this run.
    pub(super) fn is_worth_waiting(&self) -> bool {
        self.over.is_some() && self.over != self.complete && self.over != self.given_up
    }

    /// From now on the end of this run is shown, whatever becomes of its log.
    pub(super) fn give_up(&mut self) {
        self.given_up = self.over;
    }

    pub(super) fn reopen(&mut self, reply: oneshot::Sender<Reopened>) {
        self.reopen.push(reply);
    }

    pub(super) fn leave(&mut self, reply: Option<oneshot::Sender<()>>, now: Nanos) {
        let (unheard, _) = oneshot::channel();
        self.leaving.push(reply.unwrap_or(unheard));
        self.over.get_or_insert(now);
    }

    /// Closes it until the next start; a removed container needs no position any more.
    pub(super) fn close(self, positions: &PositionStore) {
        let Some(mut log) = self.log else { return };
        match self.leaving.is_empty() {
            true => log.close(positions),
            false => positions.remove(&log.container.id),
        }
    }

    /// Whether its directory is one of these; not known while a poll has it.
    pub(super) fn is_in(&self, directory: impl Fn(&Path) -> bool) -> bool {
        self.log.as_ref().is_some_and(|log| directory(log.container.target.root()))
    }

    /// For a poll; none while it has one, or when there is nothing to do: a log that is complete
    /// is not searched for among files that the engine is removing.
    pub(super) fn begin_poll(&mut self) -> Option<(Box<Log>, PollRequest)> {
        let complete = self.over.is_some() && self.over == self.complete;
        if complete && self.reopen.is_empty() && self.leaving.is_empty() {
            return None;
        }
        let log = self.log.take()?;
        self.reopening.append(&mut self.reopen);
        self.running = PollRequest {
            reopen: !self.reopening.is_empty(),
            over: self.over,
            complete,
            leave: !self.leaving.is_empty(),
            busy: self.busy,
        };
        Some((log, self.running))
    }

    /// After a poll.
    pub(super) fn take_back(
        &mut self,
        log: Box<Log>,
        mut outcome: PollOutcome,
        now: Instant,
    ) -> AfterPoll {
        self.report(&log, outcome.error.as_ref());
        self.log = Some(log);
        if let Some(reopened) = outcome.reopened.take() {
            self.answer(&Reopened(reopened.map_err(Arc::new)));
        }
        if self.running.leave && outcome.state != ReadState::More {
            return AfterPoll::Gone;
        }
        let hopeless = outcome.error.as_ref().is_some_and(is_hopeless);
        if hopeless || outcome.state == ReadState::Complete {
            self.complete = self.running.over;
        }
        let (over, complete) = (self.over, self.complete);
        self.progress.send_modify(|progress| {
            progress.opened |= outcome.opened;
            progress.moved = progress.moved.saturating_add(outcome.moved);
            progress.complete = over.is_some() && over == complete;
            progress.left = outcome.left;
        });
        AfterPoll::Stay(match outcome.error {
            Some(_) if hopeless => NextPoll::Sleep,
            Some(_) => NextPoll::Rest(now + rest_after(self.failures)),
            None => self.next(&outcome, now),
        })
    }

    /// The thread that had it broke. It begins anew from what was saved.
    pub(super) fn lost(&mut self, log: Box<Log>) {
        self.log = Some(log);
        self.reopening.clear();
        self.failures = self.failures.saturating_add(1);
    }

    fn next(&mut self, outcome: &PollOutcome, now: Instant) -> NextPoll {
        let moved_just_now = self.moved_at.is_some_and(|at| now.duration_since(at) < BUSY_WITHIN);
        let moved = outcome.moved > 0;
        self.busy = moved && (moved_just_now || outcome.moved >= BUSY_BYTES);
        if moved {
            self.moved_at = Some(now);
        }
        match outcome.state {
            ReadState::More => NextPoll::Again,
            ReadState::Complete => NextPoll::Sleep,
            ReadState::CaughtUp if outcome.relayed => NextPoll::Sleep,
            ReadState::CaughtUp if self.busy => NextPoll::Rest(now + POLL),
            // It is quiet now: the next poll sets the watch.
            ReadState::CaughtUp if self.running.busy => NextPoll::Again,
            ReadState::CaughtUp if outcome.tail.is_some() => NextPoll::Sleep,
            ReadState::CaughtUp => NextPoll::Rest(now + UNWATCHED),
        }
    }

    /// One line for each change of state, not one for each try.
    fn report(&mut self, log: &Log, error: Option<&LogError>) {
        let container = &log.container.id;
        let Some(error) = error else {
            if self.trouble.take().is_some() {
                info!(%container, "writing the container log again");
            }
            self.failures = 0;
            return;
        };
        self.failures = self.failures.saturating_add(1);
        let text = chain(error);
        if self.running.leave {
            // The engine's refusal is expected by now; what is still to be written is not.
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

    fn answer(&mut self, reopened: &Reopened) {
        for waiter in self.reopening.drain(..) {
            // The caller may have gone.
            let _ = waiter.send(reopened.clone());
        }
    }
}

/// Whether trying again is in vain: the engine keeps nothing that could be read, or the container
/// is gone.
fn is_hopeless(error: &LogError) -> bool {
    match error {
        LogError::Engine(error) => matches!(error.kind(), Kind::NotFound | Kind::Unimplemented),
        _ => false,
    }
}

/// Whether it happens in the best of lives.
const fn is_passing(error: &LogError) -> bool {
    matches!(error, LogError::Interrupted | LogError::SourceAbsent { .. })
}

/// Doubles from failure to failure.
fn rest_after(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_REST.saturating_mul(doubled).min(LONGEST_REST)
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

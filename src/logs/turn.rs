//! One container's log while nobody else touches it: what a thread does in one turn.

use std::time::Duration;

use tokio::{sync::mpsc, time::Instant};
use tracing::warn;

use super::{
    convert::Buffers,
    error::LogError,
    follower::{Follower, Step},
    metrics::LogMetrics,
    position::Position,
    positions::{Positions, Saved},
    relay::{End, Relay},
    subject::Subject,
};
use crate::{
    engine::client::Engine,
    host::tail_watch::{Tail, TailWatch, is_exhausted},
    model::{id::ContainerId, time::Nanos},
};

/// A log under way. Lent to a thread for each turn.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) subject: Subject,
    writer: Option<Writer>,
    /// Where the next writer begins.
    position: Option<Position>,
    saved_at: Instant,
    generation: u64,
}

#[derive(Debug)]
enum Writer {
    Follower(Box<Follower>),
    /// Whether it was begun after the container had ended: only then its end is the log's.
    Relay(Box<Relay>, bool),
}

/// What every turn works with.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    pub(super) engine: Engine,
    pub(super) positions: Positions,
    pub(super) watch: Option<TailWatch>,
    pub(super) woken: mpsc::UnboundedSender<ContainerId>,
    pub(super) metrics: LogMetrics,
}

/// What a turn is for, besides writing what there is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wish {
    /// The kubelet has renamed the file.
    pub(super) reopen: bool,
    /// The run that is over.
    pub(super) over: Option<Nanos>,
    /// All of that run is written.
    pub(super) complete: bool,
    /// The container is gone, and its position may go.
    pub(super) leave: bool,
    /// It is written to often: it is looked at again soon without being told.
    pub(super) busy: bool,
}

/// What a turn came to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Bytes of the engine's that were converted.
    pub(super) moved: u64,
    pub(super) state: State,
    /// The CRI file is there.
    pub(super) opened: bool,
    /// The watch that tells when there is more.
    pub(super) tail: Option<Tail>,
    /// The engine's answer is read, and its reader tells when there is more.
    pub(super) relayed: bool,
    /// The kernel has no watch left.
    pub(super) unwatched: bool,
    pub(super) reopened: Option<Result<(), LogError>>,
    pub(super) error: Option<LogError>,
    /// Bytes of the engine's file that are still to be converted, where that is known.
    pub(super) left: Option<u64>,
    /// Bytes that are known to wait after this turn.
    pub(super) behind: u64,
}

/// How far a log is after a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// More is there.
    More,
    /// That was all for now.
    #[default]
    CaughtUp,
    /// That was all there will ever be.
    Complete,
}

impl Log {
    pub(super) fn new(subject: Subject, position: Option<Position>) -> Self {
        Self { subject, writer: None, position, saved_at: Instant::now(), generation: 0 }
    }

    /// Reads, converts and writes a piece of at most about 1 MiB. Blocks; to be called in a runtime.
    pub(super) fn turn(&mut self, wish: Wish, tools: &Tools, buffers: &mut Buffers) -> Outcome {
        let mut outcome = Outcome::default();
        let has_work = !wish.complete || wish.reopen;
        if has_work && let Err(error) = self.write(wish, tools, buffers, &mut outcome) {
            if wish.reopen && outcome.reopened.is_none() {
                outcome.reopened = Some(Err(error));
            } else {
                outcome.error = Some(error);
            }
        }
        self.tell_losses(&tools.metrics);
        if outcome.state == State::More {
            outcome.behind = self.left().unwrap_or_default();
        }
        self.keep_position(wish, tools, &outcome);
        if wish.over.is_some() && outcome.state != State::Complete {
            outcome.left = self.left();
        }
        outcome
    }

    /// Lets go of everything but the position, which is saved if it moved.
    pub(super) fn close(&mut self, positions: &Positions) {
        if let Some(writer) = self.writer.take() {
            self.position = writer.position().or(self.position.take());
            positions.save(&self.subject.id, &Saved::new(self.position.clone(), None));
        }
    }

    fn write(
        &mut self,
        wish: Wish,
        tools: &Tools,
        buffers: &mut Buffers,
        outcome: &mut Outcome,
    ) -> Result<(), LogError> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            // The engine has nothing left to read, and the kubelet may have removed our file.
            None if wish.leave => return Ok(()),
            None => self.open(wish, tools)?,
        };
        let writer = self.writer.insert(writer);
        outcome.opened = true;
        outcome.relayed = matches!(writer, Writer::Relay(..));
        if wish.reopen {
            outcome.reopened = Some(writer.reopen());
        }
        note(writer.step(buffers)?, outcome);
        let quiet = outcome.state == State::CaughtUp && !wish.busy && wish.over.is_none();
        if quiet && let Writer::Follower(follower) = writer {
            // What was written before the watch was set is told by nobody.
            set_watch(&self.subject, tools, outcome);
            note(follower.step(buffers)?, outcome);
        }
        self.judge_end(wish, outcome)
    }

    /// Finds out whether that was all, and lets go of a relay that is of no more use.
    fn judge_end(&mut self, wish: Wish, outcome: &mut Outcome) -> Result<(), LogError> {
        let end = match &self.writer {
            Some(Writer::Follower(_)) if outcome.state == State::CaughtUp => {
                if wish.over.is_some() {
                    outcome.state = State::Complete;
                }
                return Ok(());
            }
            Some(Writer::Relay(relay, after_the_end)) => {
                relay.end().map(|end| (end.clone(), *after_the_end))
            }
            _ => None,
        };
        let Some((end, after_the_end)) = end else { return Ok(()) };
        let position = self.writer.take().and_then(|writer| writer.position());
        self.position = position.or(self.position.take());
        match end {
            End::Orderly if after_the_end => outcome.state = State::Complete,
            End::Orderly if wish.over.is_some() => outcome.state = State::More,
            End::Orderly => return Err(LogError::Interrupted),
            End::Failed(error) => return Err(LogError::Engine(error)),
        }
        Ok(())
    }

    /// By the engine's file, or where that is not to be read, by asking the engine.
    fn open(&self, wish: Wish, tools: &Tools) -> Result<Writer, LogError> {
        let (subject, position) = (&self.subject, || self.position.clone());
        if let Some(source) = &subject.source {
            match Follower::resume(source, subject.target.clone(), position()) {
                Err(LogError::SourceAbsent { .. } | LogError::Source(_)) => {}
                opened => return opened.map(|follower| Writer::Follower(Box::new(follower))),
            }
        }
        let relay = Relay::start(&tools.engine, subject, position(), &tools.woken)?;
        Ok(Writer::Relay(Box::new(relay), wish.over.is_some()))
    }

    /// A position costs a file: it is written when it would cost more not to have it.
    fn keep_position(&mut self, wish: Wish, tools: &Tools, outcome: &Outcome) {
        let complete = wish.over.filter(|_| outcome.state == State::Complete);
        if wish.leave && outcome.state != State::More {
            self.writer = None;
            return tools.positions.remove(&self.subject.id);
        }
        let Some(writer) = &self.writer else {
            if complete.is_some() {
                let saved = Saved::new(self.position.clone(), complete);
                tools.positions.save(&self.subject.id, &saved);
            }
            return;
        };
        let (generation, now) = (writer.generation(), Instant::now());
        let turned = generation != self.generation || outcome.reopened.is_some();
        let old = outcome.moved > 0 && now.duration_since(self.saved_at) >= SAVE_EVERY;
        if turned || old || complete.is_some() {
            self.position = writer.position().or(self.position.take());
            (self.generation, self.saved_at) = (generation, now);
            tools.positions.save(&self.subject.id, &Saved::new(self.position.clone(), complete));
        }
        if complete.is_some() {
            self.writer = None;
        }
    }

    fn tell_losses(&mut self, metrics: &LogMetrics) {
        let Some(Writer::Follower(follower)) = &mut self.writer else { return };
        let losses = follower.take_losses();
        if losses.unreadable > 0 {
            metrics.lost.with(["lines"]).inc_by(losses.unreadable);
            warn!(
                container = %self.subject.id, lines = losses.unreadable,
                "lines of the engine's log cannot be read: they are left out"
            );
        }
        if losses.gaps > 0 {
            metrics.lost.with(["files"]).inc_by(losses.gaps);
            warn!(
                container = %self.subject.id, gaps = losses.gaps,
                "the engine has removed log files before they were read: lines are missing"
            );
        }
    }

    fn left(&self) -> Option<u64> {
        let position = self.writer.as_ref()?.position()?;
        let length = std::fs::metadata(self.subject.source.as_ref()?).ok()?.len();
        Some(length.saturating_sub(position.source?.offset))
    }
}

impl Writer {
    fn step(&mut self, buffers: &mut Buffers) -> Result<Step, LogError> {
        match self {
            Self::Follower(follower) => follower.step(buffers),
            Self::Relay(relay, _) => relay.step(buffers),
        }
    }

    fn reopen(&mut self) -> Result<(), LogError> {
        match self {
            Self::Follower(follower) => follower.reopen(),
            Self::Relay(relay, _) => relay.reopen(),
        }
    }

    fn position(&self) -> Option<Position> {
        match self {
            Self::Follower(follower) => Some(follower.position()),
            Self::Relay(relay, _) => relay.position(),
        }
    }

    fn generation(&self) -> u64 {
        match self {
            Self::Follower(follower) => follower.generation(),
            Self::Relay(..) => 0,
        }
    }
}

fn note(step: Step, outcome: &mut Outcome) {
    let (state, moved) = match step {
        Step::More(moved) => (State::More, moved),
        Step::CaughtUp(moved) => (State::CaughtUp, moved),
    };
    outcome.state = state;
    outcome.moved = outcome.moved.saturating_add(moved);
}

fn set_watch(subject: &Subject, tools: &Tools, outcome: &mut Outcome) {
    let (Some(watch), Some(source)) = (&tools.watch, &subject.source) else { return };
    match watch.set(source) {
        Ok(tail) => outcome.tail = Some(tail),
        // An absent file is being put aside for another: it is looked for again.
        Err(error) => outcome.unwatched = is_exhausted(&error),
    }
}

/// How much of a log is at most read again after a crash, in time.
const SAVE_EVERY: Duration = Duration::from_secs(5);

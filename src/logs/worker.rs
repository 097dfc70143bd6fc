//! The task that drives all logs: it takes commands and inotify events, and gives each log to a
//! thread for a poll.

use std::collections::{HashMap, VecDeque};

use tokio::{
    sync::{mpsc, oneshot},
    task::{self, JoinError, JoinSet},
    time::{Instant, sleep_until, timeout_at},
};
use tracing::{info, warn};

use super::{
    command::{Command, ObserveReply},
    convert::Buffers,
    error::LogError,
    log_state::{AfterPoll, LogState, Reopened},
    logged_container::{LoggedContainer, RunState},
    poll::{Log, PollOutcome, Tools},
    position_store::Saved,
    running_polls::RunningPolls,
    scheduler::{NextPoll, Scheduler},
};
use crate::{
    error::chain,
    host::tail_watch::{TailEvent, TailEvents, WatchedFile},
    model::{id::ContainerId, time::Nanos},
};

/// All logs.
#[derive(Debug)]
pub(super) struct Worker {
    tools: Tools,
    tidings: Option<TailEvents>,
    /// From relays: something came from the engine.
    woken: mpsc::UnboundedReceiver<ContainerId>,
    scheduler: Scheduler,
    logs: HashMap<ContainerId, LogState>,
    /// Of an earlier run, and not asked for yet.
    saved: HashMap<ContainerId, Saved>,
    tails: HashMap<WatchedFile, ContainerId>,
    polls: JoinSet<FinishedPoll>,
    running: RunningPolls,
    buffers: Vec<Buffers>,
    /// Removed not long ago, the latest last: an inspect that began before a removal may still report
    /// them. Ids are never given twice.
    departed: VecDeque<ContainerId>,
    unwatched: bool,
}

/// What a poll's thread hands back.
#[derive(Debug)]
struct FinishedPoll {
    log: Box<Log>,
    buffers: Buffers,
    outcome: PollOutcome,
}

impl Worker {
    pub(super) fn new(
        tools: Tools,
        tidings: Option<TailEvents>,
        woken: mpsc::UnboundedReceiver<ContainerId>,
    ) -> Self {
        let running = RunningPolls::new(tools.poll_limit);
        Self {
            tools,
            tidings,
            woken,
            scheduler: Scheduler::default(),
            logs: HashMap::new(),
            saved: HashMap::new(),
            tails: HashMap::new(),
            polls: JoinSet::new(),
            running,
            buffers: Vec::new(),
            departed: VecDeque::new(),
            unwatched: false,
        }
    }

    /// Runs until it is closed, or until the last handle is dropped.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Command>) {
        let positions = self.tools.positions.clone();
        self.saved = task::spawn_blocking(move || positions.load()).await.unwrap_or_default();
        let closed = loop {
            self.start_polls();
            let (due, late) = (self.scheduler.next_due(), self.running.next_late());
            tokio::select! {
                order = orders.recv() => match order {
                    None => break None,
                    Some(Command::Close { reply }) => break Some(reply),
                    Some(order) => self.handle_command(order),
                },
                event = next_watch_event(&mut self.tidings) => self.handle_watch_event(event),
                Some(id) = self.woken.recv() => self.scheduler.wake(&id),
                Some(finished) = self.polls.join_next_with_id() => self.take_back(finished),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.scheduler.due(Instant::now());
                }
                () = sleep_until(late.unwrap_or_else(Instant::now)), if late.is_some() => {
                    self.release_late();
                }
            }
        };
        self.close().await;
        drop(closed);
    }

    fn handle_command(&mut self, command: Command) {
        match command {
            // Dropped without an answer: nothing of it is awaited.
            Command::Observe { container, .. } if self.departed.contains(&container.id) => {}
            Command::Observe { container, run, reply } => {
                // The caller may have gone, here and below.
                let _ = reply.send(self.observe(*container, run));
            }
            Command::GiveUp { id } => {
                if let Some(log) = self.logs.get_mut(&id) {
                    log.give_up();
                }
            }
            Command::Reopen { id, reply } => match self.logs.get_mut(&id) {
                Some(log) => {
                    log.reopen(reply);
                    self.scheduler.wake(&id);
                }
                None => {
                    let unknown = LogError::Unknown { id: id.to_string() };
                    let _ = reply.send(Reopened(Err(unknown.into())));
                }
            },
            Command::Forget { id, reply } => self.forget(&id, Some(reply)),
            Command::Known { reply } => {
                let known = self.logs.keys().chain(self.saved.keys());
                let _ = reply.send(known.cloned().collect());
            }
            Command::Close { .. } => {}
        }
    }

    fn observe(&mut self, container: LoggedContainer, run: RunState) -> ObserveReply {
        let id = container.id.clone();
        let mut fresh = false;
        let log = self.logs.entry(id.clone()).or_insert_with(|| {
            let saved = self.saved.remove(&id);
            fresh = saved.as_ref().is_none_or(|saved| saved.complete.is_none());
            LogState::new(container.clone(), saved.unwrap_or_default())
        });
        if log.observe(container, run) || fresh {
            self.scheduler.wake(&id);
        }
        ObserveReply { progress: log.progress(), worth_waiting: log.is_worth_waiting() }
    }

    fn forget(&mut self, id: &ContainerId, reply: Option<oneshot::Sender<()>>) {
        if !self.departed.contains(id) {
            self.departed.push_back(id.clone());
            if self.departed.len() > REMEMBERED {
                self.departed.pop_front();
            }
        }
        if let Some(log) = self.logs.get_mut(id) {
            log.leave(reply, Nanos(i64::MAX));
            self.scheduler.wake(id);
        } else if self.saved.remove(id).is_some() {
            let (positions, id) = (self.tools.positions.clone(), id.clone());
            task::spawn_blocking(move || {
                positions.remove(&id);
                drop(reply);
            });
        }
    }

    fn handle_watch_event(&mut self, events: Option<TailEvent>) {
        match events {
            Some(TailEvent::Changed(tails)) => {
                for tail in tails {
                    // An unknown watch was set by a poll that has not returned yet.
                    match self.tails.remove(&tail) {
                        Some(id) => self.scheduler.wake(&id),
                        None => self.wake_running(),
                    }
                }
            }
            Some(TailEvent::Anything) => self.scheduler.wake_all(),
            None => {
                warn!("inotify failed; polling container logs from time to time");
                (self.tidings, self.tools.watch) = (None, None);
                self.scheduler.wake_all();
            }
        }
    }

    /// Gives all whose poll is under way another one.
    fn wake_running(&mut self) {
        for container in self.running.containers() {
            self.scheduler.wake(&container.id);
        }
    }

    fn start_polls(&mut self) {
        while let Some(id) = self.scheduler.start() {
            let followed = self.logs.get_mut(&id);
            if followed.as_ref().is_some_and(|log| log.is_in(|root| self.running.holds(root))) {
                self.scheduler.finish(&id, NextPoll::Rest(Instant::now() + WHILE_IT_HANGS));
                continue;
            }
            let Some((mut log, request)) = followed.and_then(LogState::begin_poll) else {
                self.scheduler.finish(&id, NextPoll::Sleep);
                continue;
            };
            let container = log.container.clone();
            let tools = self.tools.clone();
            let mut buffers = self.buffers.pop().unwrap_or_default();
            let poll = self.polls.spawn_blocking(move || {
                let outcome = log.poll(request, &tools, &mut buffers);
                FinishedPoll { log, buffers, outcome }
            });
            self.running.begin(poll.id(), container);
        }
    }

    fn take_back(&mut self, finished: Result<(task::Id, FinishedPoll), JoinError>) {
        let FinishedPoll { log, buffers, outcome } = match finished {
            Ok((poll, finished)) => {
                if let Some((container, true)) = self.running.end(poll) {
                    info!(container = %container.id, "the file system of the container log answers again");
                }
                finished
            }
            Err(error) => return self.handle_panic(&error),
        };
        self.buffers.push(buffers);
        let id = log.container.id.clone();
        self.warn_unwatched(outcome.unwatched);
        self.tools.metrics.converted.inc_by(outcome.moved);
        if outcome.error.is_some() {
            self.tools.metrics.errors.inc();
        }
        let Some(followed) = self.logs.get_mut(&id) else { return };
        followed.behind = outcome.behind;
        if let Some(tail) = outcome.tail {
            self.tails.insert(tail, id.clone());
            let old = followed.tail.replace(tail).filter(|old| *old != tail);
            old.and_then(|old| self.tails.remove(&old));
        }
        match followed.take_back(log, outcome, Instant::now()) {
            AfterPoll::Stay(then) => self.scheduler.finish(&id, then),
            AfterPoll::Gone => self.drop_log(&id),
        }
        self.measure();
    }

    fn measure(&self) {
        let behind: u64 = self.logs.values().map(|log| log.behind).sum();
        self.tools.metrics.behind.set(i64::try_from(behind).unwrap_or(i64::MAX));
        self.tools.metrics.followed.set(i64::try_from(self.logs.len()).unwrap_or(i64::MAX));
    }

    fn drop_log(&mut self, id: &ContainerId) {
        self.scheduler.finish(id, NextPoll::Sleep);
        self.scheduler.remove(id);
        let tail = self.logs.remove(id).and_then(|log| log.tail);
        if let (Some(tail), Some(watch)) = (tail, &self.tools.watch) {
            self.tails.remove(&tail);
            watch.remove(tail);
        }
    }

    /// A poll panicked: a bug, but not the end of all logs, nor of this one.
    fn handle_panic(&mut self, error: &JoinError) {
        warn!(%error, "internal error: panic while writing a container log; continuing from its saved position");
        let Some((container, _)) = self.running.end(error.id()) else { return };
        let id = container.id.clone();
        if let Some(followed) = self.logs.get_mut(&id) {
            let saved = self.tools.positions.read(&id).unwrap_or_default();
            followed.lost(Box::new(Log::new(container, saved.position)));
            self.scheduler.finish(&id, NextPoll::Rest(Instant::now() + AFTER_A_BUG));
        }
    }

    fn warn_unwatched(&mut self, unwatched: bool) {
        if unwatched && !self.unwatched {
            warn!(
                "no inotify watches left; polling container logs from time to time \
                 (raise fs.inotify.max_user_watches)"
            );
            self.unwatched = true;
        }
    }

    /// Gives the places of polls that do not come back to others.
    fn release_late(&mut self) {
        for container in self.running.become_late(Instant::now()) {
            warn!(
                container = %container.id, directory = %container.target.root().display(),
                "cannot write the container log: the file system of its directory does not answer; other \
                 logs are not affected"
            );
            self.scheduler.make_room(&container.id);
        }
    }

    /// Lets the polls under way end, but for those that hang, and saves all positions of logs that
    /// go on.
    async fn close(mut self) {
        while let Some(until) = self.running.last_late()
            && let Ok(Some(finished)) = timeout_at(until, self.polls.join_next_with_id()).await
        {
            self.take_back(finished);
        }
        let positions = self.tools.positions.clone();
        let logs: Vec<LogState> = self.logs.drain().map(|(_, log)| log).collect();
        let saving = task::spawn_blocking(move || {
            logs.into_iter().for_each(|log| log.close(&positions));
        });
        if let Err(error) = saving.await {
            warn!(
                error = chain(&error),
                "cannot save the positions of container logs; the next start reads more of them again"
            );
        }
    }
}

/// The next inotify events; none when there will be no more. Pends where there is no inotify.
async fn next_watch_event(tidings: &mut Option<TailEvents>) -> Option<TailEvent> {
    match tidings {
        None => std::future::pending().await,
        Some(open) => open.next().await.ok(),
    }
}

/// How often it is checked whether a directory still hangs.
const WHILE_IT_HANGS: std::time::Duration = std::time::Duration::from_secs(1);
/// How many of the departed are remembered: more than are removed while one inspect runs.
const REMEMBERED: usize = 1024;
/// When a log whose poll panicked is polled again.
const AFTER_A_BUG: std::time::Duration = std::time::Duration::from_secs(1);

#[cfg(test)]
mod tests;

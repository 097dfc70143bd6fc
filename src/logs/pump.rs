//! The one task that drives all logs: it hears what is wanted and what has changed, and lends each
//! log to a thread for a turn.

use std::collections::{HashMap, VecDeque};

use tokio::{
    sync::{mpsc, oneshot},
    task::{self, JoinError, JoinSet},
    time::{Instant, sleep_until, timeout_at},
};
use tracing::{info, warn};

use super::{
    command::{Command, Watched},
    convert::Buffers,
    error::LogError,
    followed::{Followed, Reopened, Verdict},
    lent::Lent,
    positions::Saved,
    roster::{Roster, Then},
    subject::{Run, Subject},
    turn::{Log, Outcome, Tools},
};
use crate::{
    error::chain,
    host::tail_watch::{Tail, Tidings, Told},
    model::{id::ContainerId, time::Nanos},
};

/// All logs.
#[derive(Debug)]
pub(super) struct Pump {
    tools: Tools,
    tidings: Option<Tidings>,
    /// From relays: something came from the engine.
    woken: mpsc::UnboundedReceiver<ContainerId>,
    roster: Roster,
    logs: HashMap<ContainerId, Followed>,
    /// Of an earlier run, and not asked for yet.
    saved: HashMap<ContainerId, Saved>,
    tails: HashMap<Tail, ContainerId>,
    turns: JoinSet<Turned>,
    lent: Lent,
    buffers: Vec<Buffers>,
    /// Let go of not long ago, the latest last: a look that began before a removal may still tell
    /// of them. Ids are never given twice.
    departed: VecDeque<ContainerId>,
    unwatched: bool,
}

/// What a turn's thread hands back.
#[derive(Debug)]
struct Turned {
    log: Box<Log>,
    buffers: Buffers,
    outcome: Outcome,
}

impl Pump {
    pub(super) fn new(
        tools: Tools,
        tidings: Option<Tidings>,
        woken: mpsc::UnboundedReceiver<ContainerId>,
    ) -> Self {
        Self {
            tools,
            tidings,
            woken,
            roster: Roster::default(),
            logs: HashMap::new(),
            saved: HashMap::new(),
            tails: HashMap::new(),
            turns: JoinSet::new(),
            lent: Lent::default(),
            buffers: Vec::new(),
            departed: VecDeque::new(),
            unwatched: false,
        }
    }

    /// Drives logs until it is told to close, or nobody is left who could tell it anything.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Command>) {
        let positions = self.tools.positions.clone();
        self.saved = task::spawn_blocking(move || positions.load()).await.unwrap_or_default();
        let closed = loop {
            self.start_turns();
            let (due, late) = (self.roster.next_due(), self.lent.next_late());
            tokio::select! {
                order = orders.recv() => match order {
                    None => break None,
                    Some(Command::Close { reply }) => break Some(reply),
                    Some(order) => self.obey(order),
                },
                told = tell(&mut self.tidings) => self.hear(told),
                Some(id) = self.woken.recv() => self.roster.wake(&id),
                Some(turned) = self.turns.join_next_with_id() => self.take_back(turned),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.roster.due(Instant::now());
                }
                () = sleep_until(late.unwrap_or_else(Instant::now)), if late.is_some() => {
                    self.go_on_without();
                }
            }
        };
        self.close().await;
        drop(closed);
    }

    fn obey(&mut self, command: Command) {
        match command {
            // Dropped without an answer: nothing of it is awaited.
            Command::Observe { subject, .. } if self.departed.contains(&subject.id) => {}
            Command::Observe { subject, run, reply } => {
                // Who no longer waits is no loss, here and below.
                let _ = reply.send(self.observe(*subject, run));
            }
            Command::GiveUp { id } => {
                if let Some(log) = self.logs.get_mut(&id) {
                    log.give_up();
                }
            }
            Command::Reopen { id, reply } => match self.logs.get_mut(&id) {
                Some(log) => {
                    log.reopen(reply);
                    self.roster.wake(&id);
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

    fn observe(&mut self, subject: Subject, run: Run) -> Watched {
        let id = subject.id.clone();
        let mut fresh = false;
        let log = self.logs.entry(id.clone()).or_insert_with(|| {
            let saved = self.saved.remove(&id);
            fresh = saved.as_ref().is_none_or(|saved| saved.complete.is_none());
            Followed::new(subject.clone(), saved.unwrap_or_default())
        });
        if log.observe(subject, run) || fresh {
            self.roster.wake(&id);
        }
        Watched { progress: log.progress(), worth_waiting: log.is_worth_waiting() }
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
            self.roster.wake(id);
        } else if self.saved.remove(id).is_some() {
            let (positions, id) = (self.tools.positions.clone(), id.clone());
            task::spawn_blocking(move || {
                positions.remove(&id);
                drop(reply);
            });
        }
    }

    fn hear(&mut self, told: Option<Told>) {
        match told {
            Some(Told::Changed(tails)) => {
                for tail in tails {
                    // A watch of nobody was set by a turn that has not come back to say so.
                    match self.tails.remove(&tail) {
                        Some(id) => self.roster.wake(&id),
                        None => self.wake_lent(),
                    }
                }
            }
            Some(Told::Anything) => self.roster.wake_all(),
            None => {
                warn!("changes of log files are no longer told: looking at them now and then");
                (self.tidings, self.tools.watch) = (None, None);
                self.roster.wake_all();
            }
        }
    }

    /// Gives all whose turn is under way another one.
    fn wake_lent(&mut self) {
        for subject in self.lent.subjects() {
            self.roster.wake(&subject.id);
        }
    }

    fn start_turns(&mut self) {
        while let Some(id) = self.roster.start() {
            let followed = self.logs.get_mut(&id);
            if followed.as_ref().is_some_and(|log| log.is_in(|root| self.lent.holds(root))) {
                self.roster.finish(&id, Then::Rest(Instant::now() + WHILE_IT_HANGS));
                continue;
            }
            let Some((mut log, wish)) = followed.and_then(Followed::lend) else {
                self.roster.finish(&id, Then::Sleep);
                continue;
            };
            let subject = log.subject.clone();
            let tools = self.tools.clone();
            let mut buffers = self.buffers.pop().unwrap_or_default();
            let turn = self.turns.spawn_blocking(move || {
                let outcome = log.turn(wish, &tools, &mut buffers);
                Turned { log, buffers, outcome }
            });
            self.lent.begin(turn.id(), subject);
        }
    }

    fn take_back(&mut self, turned: Result<(task::Id, Turned), JoinError>) {
        let Turned { log, buffers, outcome } = match turned {
            Ok((turn, turned)) => {
                if let Some((subject, true)) = self.lent.end(turn) {
                    info!(container = %subject.id, "the file system of its log answers again");
                }
                turned
            }
            Err(error) => return self.bear(&error),
        };
        self.buffers.push(buffers);
        let id = log.subject.id.clone();
        self.tell_unwatched(outcome.unwatched);
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
            Verdict::Stay(then) => self.roster.finish(&id, then),
            Verdict::Gone => self.drop_log(&id),
        }
        self.measure();
    }

    fn measure(&self) {
        let behind: u64 = self.logs.values().map(|log| log.behind).sum();
        self.tools.metrics.behind.set(i64::try_from(behind).unwrap_or(i64::MAX));
        self.tools.metrics.followed.set(i64::try_from(self.logs.len()).unwrap_or(i64::MAX));
    }

    fn drop_log(&mut self, id: &ContainerId) {
        self.roster.finish(id, Then::Sleep);
        self.roster.remove(id);
        let tail = self.logs.remove(id).and_then(|log| log.tail);
        if let (Some(tail), Some(watch)) = (tail, &self.tools.watch) {
            self.tails.remove(&tail);
            watch.take_away(tail);
        }
    }

    /// A turn panicked: a bug, but not the end of all logs, nor of this one.
    fn bear(&mut self, error: &JoinError) {
        warn!(%error, "a turn of a log broke");
        let Some((subject, _)) = self.lent.end(error.id()) else { return };
        let id = subject.id.clone();
        if let Some(followed) = self.logs.get_mut(&id) {
            let saved = self.tools.positions.read(&id).unwrap_or_default();
            followed.lost(Box::new(Log::new(subject, saved.position)));
            self.roster.finish(&id, Then::Rest(Instant::now() + AFTER_A_BUG));
        }
    }

    fn tell_unwatched(&mut self, unwatched: bool) {
        if unwatched && !self.unwatched {
            warn!(
                "the kernel gives no more watches on files: looking at logs now and then \
                 (raise fs.inotify.max_user_watches)"
            );
            self.unwatched = true;
        }
    }

    /// Gives the places of turns that do not come back to others.
    fn go_on_without(&mut self) {
        for subject in self.lent.become_late(Instant::now()) {
            warn!(
                container = %subject.id, directory = %subject.target.root().display(),
                "its log stands still: a file system does not answer; other logs go on"
            );
            self.roster.make_room(&subject.id);
        }
    }

    /// Lets the turns under way end, but for those that hang, and saves all positions of logs that
    /// go on.
    async fn close(mut self) {
        while let Some(until) = self.lent.last_late()
            && let Ok(Some(turned)) = timeout_at(until, self.turns.join_next_with_id()).await
        {
            self.take_back(turned);
        }
        let positions = self.tools.positions.clone();
        let logs: Vec<Followed> = self.logs.drain().map(|(_, log)| log).collect();
        let saving = task::spawn_blocking(move || {
            logs.into_iter().for_each(|log| log.close(&positions));
        });
        if let Err(error) = saving.await {
            warn!(error = chain(&error), "the positions of logs are not saved");
        }
    }
}

/// What was told of files; none when nothing is told any more. Pends where nothing ever was.
async fn tell(tidings: &mut Option<Tidings>) -> Option<Told> {
    match tidings {
        None => std::future::pending().await,
        Some(open) => open.next().await.ok(),
    }
}

/// How often it is looked whether a directory that hangs does so still.
const WHILE_IT_HANGS: std::time::Duration = std::time::Duration::from_secs(1);
/// How many of the departed are remembered: more than are removed while one look is under way.
const REMEMBERED: usize = 1024;
/// Before a log whose turn broke is tried again.
const AFTER_A_BUG: std::time::Duration = std::time::Duration::from_secs(1);

#[cfg(test)]
mod tests;

//! One process that an exec has started in a running container.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OnceCell, Semaphore},
    time::{Instant, sleep, timeout},
};
use tracing::{info, warn};

use super::{
    error::ExecError,
    follow::Process,
    process_lookup::{FoundProcess, KILL_TIMEOUT, Lookup, ProcessFinder, Signalled},
    refusal,
};
use crate::{
    concurrency::{backoff::Backoff, blocking::blocking},
    engine::{
        client::Engine,
        error::Subject,
        exec::{Ending, ExecRequest, ExecState},
        hijack::{Input, Output},
    },
    host::pidfd::ProcessSignal,
    model::{record::ContainerRecord, stream::TerminalSize},
};

/// An exec and its process. Clones refer to the same process. Dropping all clones does not end the process.
#[derive(Clone, Debug)]
pub struct Exec {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    id: String,
    tty: bool,
    finder: ProcessFinder,
    lookup: OnceCell<Lookup>,
}

impl Exec {
    /// Creates the exec. No process runs before [`Self::start`]. The request's first environment variable, if
    /// any, must be unique: [`Self::kill`] uses it to find processes that cannot be found otherwise. Fails if
    /// the engine does, for example because the container does not run.
    pub async fn make(
        engine: &Engine,
        container: &ContainerRecord,
        request: &ExecRequest<'_>,
    ) -> Result<Self, ExecError> {
        let id = engine.create_exec(container.id.as_str(), request).await?;
        Ok(Self::of(engine, id, request.streams.tty, container, request.env.first().cloned()))
    }

    /// An exec, perhaps of an earlier dockbridge process. `id` is empty if the exec's id is not known.
    pub(super) fn of(
        engine: &Engine,
        id: String,
        tty: bool,
        container: &ContainerRecord,
        marker: Option<String>,
    ) -> Self {
        let finder = ProcessFinder::of(container, marker);
        let engine = engine.clone();
        Self { shared: Arc::new(Shared { engine, id, tty, finder, lookup: OnceCell::new() }) }
    }

    /// The engine's id of the exec.
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// Waits until the container is not frozen, then starts the process. Must be called only once.
    ///
    /// # Errors
    /// The call to the engine fails. [`ExecError::after_start`] says whether the command may still start.
    pub async fn start(&self) -> Result<(Output, Input), ExecError> {
        let _thawed = self.shared.engine.freezes().thawed(&self.shared.finder.container).await;
        Ok(self.shared.engine.start_exec(&self.shared.id, self.shared.tty).await?)
    }

    /// After a failed call to start, waits until the engine may have started the process. Returns false once
    /// the engine can no longer start the process. Fails if the engine does not answer for a very long time.
    pub(super) async fn starts(&self) -> Result<bool, ExecError> {
        self.poll(LONGEST_WATCH_PAUSE, |answer, passed| match answer {
            // The engine reports an exec as running even before it has started a process, but without a pid.
            Ok(ExecState { running: true, pid: Some(_), .. }) => Some(Ok(true)),
            // If the engine reports both a pid and an end, the process may still run: Docker reports the exit
            // code 126 as soon as it cannot deliver the output.
            Ok(state) if state.ending().is_some() => Some(Ok(state.pid.is_some())),
            // Either the engine was restarted, perhaps after the start, or the container no longer exists.
            Err(ExecError::Forgotten { .. }) => Some(Ok(true)),
            Ok(_) => (passed > LATEST_BEGINNING).then_some(Ok(false)),
            Err(error) => (passed > LATEST_BEGINNING).then_some(Err(error)),
        })
        .await
    }

    /// Whether the process exists, or may still be started, according to the engine. Also true if the engine
    /// does not answer. False if the exec's id is not known.
    pub(super) async fn may_run(&self) -> bool {
        // With an empty id, the request would have the path of another resource.
        !self.shared.id.is_empty()
            && match self.inspect().await {
                Ok(state) => state.running,
                Err(error) => !matches!(error, ExecError::Forgotten { .. }),
            }
    }

    pub(super) fn finder(&self) -> &ProcessFinder {
        &self.shared.finder
    }

    /// Whether the main process runs now, according to the process table and not the engine. Also true if
    /// dockbridge cannot see the process.
    pub async fn runs(&self) -> bool {
        match self.shared.lookup.get() {
            Some(Lookup::Found(found)) => found.held.is_alive(),
            Some(lookup) => matches!(lookup, Lookup::Hidden),
            // The engine has not reported the pid of the main process yet.
            None => {
                let finder = self.shared.finder.clone();
                blocking(move || finder.main_runs()).await
            }
        }
    }

    /// How long the main process has run. None if dockbridge has not found it.
    pub fn age(&self) -> Option<Duration> {
        match self.shared.lookup.get()? {
            Lookup::Found(found) => self.shared.finder.processes.age(found.main.who),
            Lookup::Ended | Lookup::Hidden => None,
        }
    }

    /// Resolves once the engine has started the main process, if the process then still runs.
    pub async fn running(&self) {
        if !matches!(self.lookup().await, Ok(Lookup::Found(found)) if found.held.is_alive()) {
            std::future::pending::<()>().await;
        }
    }

    /// Kills the process and all its descendants. Returns once none is left and the engine, if reachable,
    /// reports the end.
    ///
    /// # Errors
    /// [`ExecError::HiddenProcess`] if dockbridge cannot see the process, [`ExecError::Unkillable`] if a
    /// process does not end, [`ExecError::NotStarted`] if the engine may still start the process, and any
    /// error of the engine or of the process table.
    pub async fn kill(&self) -> Result<(), ExecError> {
        let hidden = |exec, container| ExecError::HiddenProcess { exec, container };
        let not_started = |exec, container| ExecError::NotStarted { exec, container };
        let main = match timeout(LOOKUP_TIMEOUT, self.lookup()).await {
            Ok(Err(error)) => return Err(error),
            Ok(Ok(Lookup::Found(found))) => Some(found),
            Ok(Ok(Lookup::Ended)) => None,
            Ok(Ok(Lookup::Hidden)) => match self.inspect().await {
                Ok(state) if state.has_ended() => None,
                Err(ExecError::Forgotten { .. }) => None,
                _ => return Err(self.named(hidden)),
            },
            // The engine does not report the pid, but the marker in the environment identifies the processes.
            Err(_) => {
                end_all(&self.shared.finder, None).await?;
                return match self.inspect().await {
                    Ok(state) if state.ending().is_some() => Ok(()),
                    Ok(state) if state.pid.is_some() => Err(self.shared.finder.unkillable()),
                    Err(ExecError::Forgotten { .. }) => Ok(()),
                    _ => Err(self.named(not_started)),
                };
            }
        };
        end_all(&self.shared.finder, main).await?;
        let over = self.poll(LONGEST_PAUSE, |answer, _| match answer {
            Ok(state) => state.has_ended().then_some(()),
            Err(error) => {
                (error.is_absence() || matches!(error, ExecError::Forgotten { .. })).then_some(())
            }
        });
        timeout(KILL_TIMEOUT, over).await.map_err(|_| self.shared.finder.unkillable())
    }

    /// Ends the process as a terminal does when its user disconnects: sends SIGHUP to its session, and then
    /// SIGKILL to the main process if the main process still runs.
    pub async fn hang_up(&self) {
        let Ok(Lookup::Found(found)) = self.lookup().await else { return };
        signal(&self.shared.finder, Some(Arc::clone(&found)), ProcessSignal::HangUp).await;
        if timeout(HANG_UP_TIMEOUT, found.held.ended()).await.is_err()
            && let Err(error) = found.held.signal(ProcessSignal::Kill)
        {
            warn!(exec = self.shared.id, %error, "cannot kill an exec process whose client disconnected");
        }
    }

    /// Sets the size of the process's terminal. Fails for example if the process has ended.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), ExecError> {
        let subject = Subject::Exec(self.shared.id.clone());
        Ok(self.shared.engine.resize(subject, size).await?)
    }

    /// The main process of the exec. Later calls return the first result, unless it was an error.
    async fn lookup(&self) -> Result<Lookup, ExecError> {
        self.shared.lookup.get_or_try_init(|| self.find()).await.cloned()
    }

    async fn find(&self) -> Result<Lookup, ExecError> {
        let pid = self.poll(LONGEST_PAUSE, |answer, _| match answer {
            Ok(ExecState { running: true, pid: Some(pid), .. }) => Some(Some(pid)),
            Ok(state) => state.has_ended().then_some(None),
            Err(ExecError::Forgotten { .. }) => Some(None),
            // The engine cannot be reached, so the next inspect may succeed.
            Err(_) => None,
        });
        let Some(pid) = pid.await else { return Ok(Lookup::Ended) };
        let finder = self.shared.finder.clone();
        blocking(move || finder.find(pid)).await.map_err(|error| ExecError::Unreadable {
            container: self.shared.finder.container.clone(),
            reason: error.to_string(),
        })
    }

    /// Inspects the exec at growing intervals until `decide` returns a value. `decide` also gets the time
    /// that has passed since the first inspect.
    async fn poll<T>(
        &self,
        longest_pause: Duration,
        mut decide: impl FnMut(Result<ExecState, ExecError>, Duration) -> Option<T> + Send,
    ) -> T {
        let begun = Instant::now();
        loop {
            if let Some(decision) = decide(self.inspect().await, begun.elapsed()) {
                return decision;
            }
            sleep(until_next_look(begun.elapsed()).min(longest_pause)).await;
        }
    }

    /// Inspects the exec. An engine that was restarted does not know the exec: the error is `Forgotten`.
    async fn inspect(&self) -> Result<ExecState, ExecError> {
        self.shared.engine.inspect_exec(&self.shared.id).await.map_err(|error| {
            if error.is_not_found() {
                return self.named(|exec, container| ExecError::Forgotten { exec, container });
            }
            error.into()
        })
    }

    fn named(&self, error: fn(String, String) -> ExecError) -> ExecError {
        error(self.shared.id.clone(), self.shared.finder.container.clone())
    }
}

impl Process for Exec {
    type Report = Ending;
    type Outcome = i32;

    async fn reported(&self) -> Ending {
        // Most commands end within this time without a search for their processes. With a terminal,
        // dockbridge searches at once, because it must send SIGHUP if the engine dies.
        if !self.shared.tty {
            sleep(USUAL_DURATION).await;
        }
        if let Ok(Lookup::Found(found)) = self.lookup().await {
            found.held.ended().await;
        }
        self.poll(LONGEST_PAUSE, |answer, _| answer.ok()?.ending()).await
    }

    async fn answered(&self) {
        self.poll(LONGEST_PAUSE, |answer, _| answer.ok().map(drop)).await;
    }

    async fn concluded(&self) -> Result<Ending, ExecError> {
        let no_exit_code = |exec, container| ExecError::NoExitCode { exec, container };
        let mut main_has_ended = false;
        loop {
            let asked = self.poll(LONGEST_PAUSE, |answer, passed| match answer {
                Ok(state) if state.conclusion().is_some() || !main_has_ended => Some(Ok(state)),
                Ok(_) => (passed > ENGINE_DELAY).then(|| Err(self.named(no_exit_code))),
                Err(error) if error.is_absence() && passed < AWAY_BEFORE_ERROR => None,
                Err(error) => Some(Err(error)),
            });
            let state = asked.await?;
            if let Some(ending) = state.conclusion() {
                return Ok(ending);
            }
            // The engine does not close the output of a running process, so the connection was lost.
            if let Ok(Ok(Lookup::Found(found))) = timeout(LOOKUP_TIMEOUT, self.lookup()).await
                && found.held.is_alive()
            {
                let container = self.shared.finder.container.clone();
                return Err(ExecError::ConnectionLost { container });
            }
            main_has_ended = true;
        }
    }

    fn outcome(&self, ending: Ending, said: &[u8]) -> Result<i32, ExecError> {
        match ending {
            Ending::Exited(code) => Ok(code),
            Ending::NeverBegun(Some(code)) if refusal::is_of_the_command(said) => Ok(code),
            Ending::NeverBegun(_) => Err(ExecError::NeverBegun {
                container: self.shared.finder.container.clone(),
                said: String::from_utf8_lossy(said).trim().to_owned(),
            }),
        }
    }
}

/// Kills the processes that `finder` finds, until several scans in a row find none.
///
/// # Errors
/// [`ExecError::Unkillable`] if a process does not end in [`KILL_TIMEOUT`] and [`LEAST_TRIES`] scans.
pub(super) async fn end_all(
    finder: &ProcessFinder,
    main: Option<Arc<FoundProcess>>,
) -> Result<(), ExecError> {
    let until = Instant::now() + KILL_TIMEOUT;
    let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_SCAN_PAUSE);
    let mut scans = Scans::default();
    // If a parent starts a child after a scan and before the parent ends, the next scan finds the child.
    loop {
        if scans.add(signal(finder, main.clone(), ProcessSignal::Kill).await) {
            if scans.killed {
                info!(container = finder.container, "killed a command that had not ended");
            }
            return Ok(());
        }
        if scans.count >= LEAST_TRIES && Instant::now() > until {
            return Err(finder.unkillable());
        }
        sleep(pauses.failed()).await;
    }
}

/// The scans for the processes of an exec that is being killed.
#[derive(Debug, Default)]
pub(super) struct Scans {
    count: u32,
    /// The number of scans without a process since the last one with a process.
    empty: u32,
    /// Whether a process was killed.
    pub(super) killed: bool,
}

impl Scans {
    /// Counts a scan, `None` for one that failed. Returns whether all processes have ended.
    pub(super) fn add(&mut self, scan: Option<Signalled>) -> bool {
        self.count += 1;
        let Some(Signalled { signalled: 0, unclear }) = scan else {
            (self.empty, self.killed) = (0, self.killed || scan.is_some());
            return false;
        };
        self.empty += 1;
        self.empty >= if unclear == 0 { EMPTY_SCANS } else { UNCLEAR_SCANS }
    }
}

/// Sends a signal to all processes of the exec. `None` if the scan for the processes fails.
async fn signal(
    finder: &ProcessFinder,
    main: Option<Arc<FoundProcess>>,
    message: ProcessSignal,
) -> Option<Signalled> {
    let (container, finder) = (finder.container.clone(), finder.clone());
    // `acquire` cannot fail, because the semaphore is never closed. More concurrent lookups than processors
    // would only delay each other.
    let _permit = LOOKUPS.acquire().await;
    let work = move || finder.signal(main.as_deref().map(|found| &found.main), message);
    let signalled = blocking(work).await.inspect_err(|error| {
        warn!(container, %error, "cannot signal the processes of an exec; retrying");
    });
    signalled.ok()
}

/// The pause before the next inspect. Short at first, because the process of a new exec must be found soon:
/// if the engine dies, the pid is lost, and dockbridge cannot send SIGHUP to the process.
pub(super) fn until_next_look(passed: Duration) -> Duration {
    (passed / 4).max(FIRST_PAUSE)
}

static LOOKUPS: Semaphore = Semaphore::const_new(4);

/// The first pause between two inspects or scans. Short, because Docker knows most ends at once.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Most commands, for example the commands of probes, take less time than this.
const USUAL_DURATION: Duration = Duration::from_millis(100);

const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// How many scans in a row must find no process before all processes count as ended.
const EMPTY_SCANS: u32 = 2;

/// How many scans in a row must find no process if some process's environment reads as empty, as during an
/// execve. The number is limited, because a process may really have an empty environment.
const UNCLEAR_SCANS: u32 = 20;

const LONGEST_SCAN_PAUSE: Duration = Duration::from_millis(16);

/// How long the engine may take to report the end of a process whose output it has closed. The engine itself
/// waits for containerd.
const ENGINE_DELAY: Duration = Duration::from_secs(60);

/// How many scans must try to kill a process before it counts as unkillable.
const LEAST_TRIES: u32 = 20;

/// How long the engine may take to report the pid of a process that must be killed.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the engine may be unreachable before the outcome of a command counts as lost.
const AWAY_BEFORE_ERROR: Duration = Duration::from_secs(10);

/// The longest pause between two inspects of an exec whose start has failed and which may still start.
const LONGEST_WATCH_PAUSE: Duration = Duration::from_secs(5);

/// After this time, dockbridge expects that the engine no longer starts a requested exec.
const LATEST_BEGINNING: Duration = Duration::from_secs(3600);

const HANG_UP_TIMEOUT: Duration = Duration::from_secs(2);

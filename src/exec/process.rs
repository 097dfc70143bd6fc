//! An exec in a running container, and the process that the exec starts.

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
    /// Creates the exec. The exec has no process before [`Self::start`]. The request's first environment variable, if
    /// any, must be unique: [`Self::kill`] uses it to find processes that cannot be found otherwise. Fails if
    /// the engine does not create the exec, for example because the container does not run.
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

    /// Asks the engine to start the exec, but not while a container checkpoint freezes the container. Call only once.
    ///
    /// # Errors
    /// The call to the engine fails. [`ExecError::after_start`] says whether the command may still start.
    pub async fn start(&self) -> Result<(Output, Input), ExecError> {
        let _thawed = self.shared.engine.freezes().thawed(&self.shared.finder.container).await;
        Ok(self.shared.engine.start_exec(&self.shared.id, self.shared.tty).await?)
    }

    /// After a failed call to start, inspects the exec until its start has succeeded or failed. Returns true if the
    /// process was started, or if the engine no longer knows the exec. Returns false if the engine could not start
    /// the process, or has not started it after [`LATEST_BEGINNING`]. Fails if inspects still fail after
    /// [`LATEST_BEGINNING`].
    pub(super) async fn starts(&self) -> Result<bool, ExecError> {
        self.poll(LONGEST_WATCH_PAUSE, |answer, passed| match answer {
            // The engine reports an exec as running even before it has started a process, but without a pid.
            Ok(ExecState { running: true, pid: Some(_), .. }) => Some(Ok(true)),
            // If the engine reports both a pid and an end, the process may still run: Docker reports the exit
            // code 126 as soon as it cannot deliver the output.
            Ok(state) if state.ending().is_some() => Some(Ok(state.pid.is_some())),
            // The engine was restarted, perhaps after the start, or the container no longer exists, or the exec ended
            // minutes ago.
            Err(ExecError::Forgotten { .. }) => Some(Ok(true)),
            Ok(_) => (passed > LATEST_BEGINNING).then_some(Ok(false)),
            Err(error) => (passed > LATEST_BEGINNING).then_some(Err(error)),
        })
        .await
    }

    /// Whether the process exists, or may still be started, according to the engine. False if dockbridge does not know
    /// the exec's id, or the engine does not know the exec. True if the inspect fails for another reason.
    pub(super) async fn may_run(&self) -> bool {
        !self.shared.id.is_empty()
            && match self.inspect().await {
                Ok(state) => state.running,
                Err(error) => !matches!(error, ExecError::Forgotten { .. }),
            }
    }

    pub(super) fn finder(&self) -> &ProcessFinder {
        &self.shared.finder
    }

    /// Whether the main process runs now. Does not ask the engine. True if dockbridge cannot see the container's
    /// processes.
    pub async fn runs(&self) -> bool {
        match self.shared.lookup.get() {
            Some(Lookup::Found(found)) => found.held.is_alive(),
            Some(lookup) => matches!(lookup, Lookup::Hidden),
            // dockbridge has not found the main process yet.
            None => {
                let finder = self.shared.finder.clone();
                blocking(move || finder.main_runs()).await
            }
        }
    }

    /// The time since the start of the main process. None if dockbridge has not found the process, or cannot read
    /// the time since boot.
    pub fn age(&self) -> Option<Duration> {
        match self.shared.lookup.get()? {
            Lookup::Found(found) => self.shared.finder.processes.age(found.main.who),
            Lookup::Ended | Lookup::Hidden => None,
        }
    }

    /// Resolves once dockbridge has found the main process, if the process then still runs. Otherwise never resolves.
    pub async fn running(&self) {
        if !matches!(self.lookup().await, Ok(Lookup::Found(found)) if found.held.is_alive()) {
            std::future::pending::<()>().await;
        }
    }

    /// Kills the main process and the other processes that belong to the exec. Returns once scans find none
    /// of them and the engine reports the end or no longer knows the exec. If dockbridge has found the main process
    /// or its end, and the engine is not reachable, the scans are enough.
    ///
    /// # Errors
    /// [`ExecError::HiddenProcess`] if dockbridge cannot see the process and the engine does not report its end,
    /// [`ExecError::Unkillable`] if a process does not end or the engine does not report the end in time,
    /// [`ExecError::NotStarted`] if the engine may still start the process, and [`ExecError::Unreadable`] if
    /// dockbridge cannot read the process table to find the main process.
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
            // The engine has not reported the pid in time. If the exec has a marker in the environment, the marker
            // identifies the processes.
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

    /// Sends SIGHUP to the main process and its session, as a terminal does when its user disconnects, and SIGKILL to
    /// the main process if it still runs after [`HANG_UP_TIMEOUT`]. Does nothing if dockbridge cannot find the main
    /// process.
    pub async fn hang_up(&self) {
        let Ok(Lookup::Found(found)) = self.lookup().await else { return };
        signal(&self.shared.finder, Some(Arc::clone(&found)), ProcessSignal::HangUp).await;
        if timeout(HANG_UP_TIMEOUT, found.held.ended()).await.is_err()
            && let Err(error) = found.held.signal(ProcessSignal::Kill)
        {
            warn!(exec = self.shared.id, %error, "cannot kill the process of an exec whose session has ended; the process may keep running");
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
            // This inspect failed, but the next inspect may succeed.
            Err(_) => None,
        });
        let Some(pid) = pid.await else { return Ok(Lookup::Ended) };
        let finder = self.shared.finder.clone();
        blocking(move || finder.find(pid)).await.map_err(|error| ExecError::Unreadable {
            container: self.shared.finder.container.clone(),
            reason: error.to_string(),
        })
    }

    /// Inspects the exec until `decide` returns a value, at intervals that grow up to `longest_pause`. `decide` also
    /// gets the time that has passed since the first inspect.
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

    /// Inspects the exec. Fails with `Forgotten` if the engine does not know the exec, for example after its restart.
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
        // Most commands end within `USUAL_DURATION`, so dockbridge need not search for their processes. With a
        // terminal, dockbridge searches for the process at once, because it must send SIGHUP if the engine dies.
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
/// [`ExecError::Unkillable`] if after [`KILL_TIMEOUT`] and [`LEAST_TRIES`] scans a process has not ended, or scans
/// still fail.
pub(super) async fn end_all(
    finder: &ProcessFinder,
    main: Option<Arc<FoundProcess>>,
) -> Result<(), ExecError> {
    let until = Instant::now() + KILL_TIMEOUT;
    let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_SCAN_PAUSE);
    let mut scans = Scans::default();
    // One scan is not enough: a parent may start a child after a scan and before the parent ends.
    loop {
        if scans.add(signal(finder, main.clone(), ProcessSignal::Kill).await) {
            if scans.killed {
                info!(
                    container = finder.container,
                    "killed a command, or processes that it had left"
                );
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
    /// The number of scans without a process since the last scan that found a process or failed.
    empty: u32,
    /// Whether a process was killed.
    pub(super) killed: bool,
}

impl Scans {
    /// Counts a scan, `None` for one that failed. Returns whether all processes now count as ended.
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

/// Sends a signal to the processes of the exec that must get this signal. `None` if the scan for the
/// processes fails, or a process cannot be signalled.
async fn signal(
    finder: &ProcessFinder,
    main: Option<Arc<FoundProcess>>,
    message: ProcessSignal,
) -> Option<Signalled> {
    let (container, finder) = (finder.container.clone(), finder.clone());
    // `acquire` cannot fail, because the semaphore is never closed. At most four scans for processes to signal run at
    // the same time: more would only delay each other.
    let _permit = LOOKUPS.acquire().await;
    let work = move || finder.signal(main.as_deref().map(|found| &found.main), message);
    let signalled = blocking(work).await.inspect_err(|error| {
        warn!(container, %error, "cannot find or signal some processes of an exec; still trying to end the exec");
    });
    signalled.ok()
}

/// The pause before the next inspect. Short at first, because dockbridge must learn the pid of a new exec soon: if the
/// engine dies first, dockbridge cannot send SIGHUP to the process.
pub(super) fn until_next_look(passed: Duration) -> Duration {
    (passed / 4).max(FIRST_PAUSE)
}

static LOOKUPS: Semaphore = Semaphore::const_new(4);

/// The first pause between two inspects or scans. Short, because Docker reports the end of most processes immediately.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// A time in which most commands end, for example the commands of probes.
const USUAL_DURATION: Duration = Duration::from_millis(100);

const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// How many scans in a row must find no process before all processes count as ended, unless [`UNCLEAR_SCANS`] applies.
const EMPTY_SCANS: u32 = 2;

/// How many scans in a row must find no process of the exec if the last scan could not read some process's
/// environment, or read it as empty, as during an execve. The number is limited, because a process may really have an
/// empty environment.
const UNCLEAR_SCANS: u32 = 20;

const LONGEST_SCAN_PAUSE: Duration = Duration::from_millis(16);

/// How long the engine may take to report the end of a process after closing its output. The engine itself waits for
/// containerd's report.
const ENGINE_DELAY: Duration = Duration::from_secs(60);

/// The minimum number of scans before a process of the exec counts as unkillable, even after [`KILL_TIMEOUT`].
const LEAST_TRIES: u32 = 20;

/// How long dockbridge waits for the pid of a process that must be killed, or whose output has ended.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the engine may be unreachable after a command's output has ended, before the command's outcome counts as
/// lost.
const AWAY_BEFORE_ERROR: Duration = Duration::from_secs(10);

/// The longest pause between two inspects after a call to start an exec has failed, if the exec may still start.
const LONGEST_WATCH_PAUSE: Duration = Duration::from_secs(5);

/// How long after a request to start an exec dockbridge assumes that the engine may still start the exec.
const LATEST_BEGINNING: Duration = Duration::from_secs(3600);

const HANG_UP_TIMEOUT: Duration = Duration::from_secs(2);

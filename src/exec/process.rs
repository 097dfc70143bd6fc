//! One process started in a running container.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OnceCell, Semaphore},
    time::{Instant, sleep, timeout},
};
use tracing::{debug, warn};

use super::{
    error::ExecError,
    sight::{Found, Sight, Struck, Traces, beside},
};
use crate::{
    engine::{
        client::Engine,
        exec::{ExecState, ExecWish},
        hijack::Hijacked,
    },
    host::{pidfd::Message, processes::Processes},
    model::{
        record::ContainerRecord,
        stream::{Streams, TerminalSize},
    },
};

/// A process started in a container. Clones mean the same one; dropping them ends nothing.
#[derive(Clone, Debug)]
pub struct Exec {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    id: String,
    traces: Traces,
    sight: OnceCell<Sight>,
}

impl Exec {
    /// Creates and starts it. `container` runs by the store's word; the engine's word counts.
    ///
    /// # Errors
    /// The engine refuses: no such container, or it does not run.
    pub async fn begin(
        engine: &Engine,
        container: &ContainerRecord,
        command: &[String],
        streams: Streams,
        size: Option<TerminalSize>,
    ) -> Result<(Self, Hijacked), ExecError> {
        Self::start(engine, container, &ExecWish { command, streams, env: &[], size }).await
    }

    /// The same without input or terminal, and with a marker (`NAME=value`, unlike any other's)
    /// in its environment, by which [`Self::kill`] finds what left every other trace behind.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn begin_marked(
        engine: &Engine,
        container: &ContainerRecord,
        command: &[String],
        marker: String,
    ) -> Result<(Self, Hijacked), ExecError> {
        let streams = Streams { stdout: true, stderr: true, ..Streams::default() };
        let env = [marker];
        Self::start(engine, container, &ExecWish { command, streams, env: &env, size: None }).await
    }

    async fn start(
        engine: &Engine,
        container: &ContainerRecord,
        wish: &ExecWish<'_>,
    ) -> Result<(Self, Hijacked), ExecError> {
        let id = engine.create_exec(container.id.as_str(), wish).await?;
        let connection = engine.start_exec(&id, wish.streams.tty).await?;
        let traces = Traces {
            processes: Processes::new(PROCESS_TABLE),
            container: container.id.as_str().to_owned(),
            marker: wish.env.first().cloned(),
        };
        let shared = Shared { engine: engine.clone(), id, traces, sight: OnceCell::new() };
        Ok((Self { shared: Arc::new(shared) }, connection))
    }

    /// Resolves when the main process has ended, whoever holds its pipes. Where it cannot be
    /// seen the engine is asked again and again; while it does not answer, nothing is known.
    pub async fn ended(&self) {
        if let Sight::Held(found) = self.sight().await {
            found.held.ended().await;
            return;
        }
        let mut pause = FIRST_PAUSE;
        while self.goes_on().await {
            sleep(pause).await;
            pause = longer(pause, LONGEST_PAUSE);
        }
    }

    /// How the main process ended; waits until it has.
    ///
    /// # Errors
    /// The engine fails, or does not say.
    pub async fn exit_code(&self) -> Result<i32, ExecError> {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(code) = self.look().await?.ending() {
                return Ok(code);
            }
            if pause > SOON {
                break;
            }
            sleep(pause).await;
            pause *= 2;
        }
        // Its output has ended and it goes on. From its end the engine is a blink behind.
        self.ended().await;
        let until = Instant::now() + ENGINE_LAG;
        pause = FIRST_PAUSE;
        while Instant::now() < until {
            if let Some(code) = self.look().await?.ending() {
                return Ok(code);
            }
            sleep(pause).await;
            pause = longer(pause, LONGEST_PAUSE);
        }
        Err(self.no_exit_code())
    }

    /// Kills it and everything it brought forth; returns when none of them is left and the
    /// engine agrees that it is over. One that has ended already is fine.
    ///
    /// # Errors
    /// [`ExecError::OutOfSight`] when its process cannot be seen from here,
    /// [`ExecError::Unkillable`] when some of it does not end, and whatever the engine says.
    pub async fn kill(&self) -> Result<(), ExecError> {
        match timeout(KILL_PATIENCE, self.end_all()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ExecError::Unkillable {
                exec: self.shared.id.clone(),
                container: self.shared.traces.container.clone(),
                patience: KILL_PATIENCE,
            }),
        }
    }

    /// What a terminal does when its user leaves: SIGHUP to its session, and SIGKILL to the main
    /// process if it stays.
    pub async fn hang_up(&self) {
        let Sight::Held(found) = self.sight().await else { return };
        self.strike(Some(Arc::clone(&found)), Message::HangUp).await;
        if timeout(HANG_UP_PATIENCE, found.held.ended()).await.is_err()
            && let Err(error) = found.held.tell(Message::Kill)
        {
            warn!(exec = self.shared.id, %error, "cannot kill a process whose user has left");
        }
    }

    /// Tells its terminal its size.
    ///
    /// # Errors
    /// It has ended, or the engine fails.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), ExecError> {
        Ok(self.shared.engine.resize_exec(&self.shared.id, size).await?)
    }

    async fn end_all(&self) -> Result<(), ExecError> {
        let sight = self.sight().await;
        let main = match &sight {
            Sight::Held(found) => Some(Arc::clone(found)),
            Sight::Over => None,
            Sight::Hidden if !self.goes_on().await => None,
            Sight::Hidden => {
                let (exec, container) =
                    (self.shared.id.clone(), self.shared.traces.container.clone());
                return Err(ExecError::OutOfSight { exec, container });
            }
        };
        // A child born between a look and its parent's death is met by the next look.
        let (mut pause, mut still) = (FIRST_PAUSE, 0);
        loop {
            let struck = self.strike(main.clone(), Message::Kill).await;
            let enough = if struck.unclear == 0 { LOOKS } else { UNCLEAR_LOOKS };
            still = if struck.signalled == 0 { still + 1 } else { 0 };
            if still >= enough {
                break;
            }
            sleep(pause).await;
            pause = longer(pause, LONGEST_LULL);
        }
        pause = FIRST_PAUSE;
        while self.goes_on().await {
            sleep(pause).await;
            pause = longer(pause, LONGEST_PAUSE);
        }
        Ok(())
    }

    /// Signals whatever belongs to it. Counts somebody if that is not known.
    async fn strike(&self, main: Option<Arc<Found>>, message: Message) -> Struck {
        let traces = self.shared.traces.clone();
        // It is never closed. Each look reads the whole table: many at once only hold up each other.
        let _turn = STRIKES.acquire().await;
        let work = move || traces.strike(main.as_deref().map(|found| &found.main), message);
        match beside(work).await.and_then(std::convert::identity) {
            Ok(struck) => struck,
            Err(error) => {
                warn!(exec = self.shared.id, %error, "cannot signal what an exec began");
                Struck { signalled: 1, unclear: 0 }
            }
        }
    }

    /// Where its main process is; looked for once.
    async fn sight(&self) -> Sight {
        self.shared.sight.get_or_init(|| self.look_for()).await.clone()
    }

    async fn look_for(&self) -> Sight {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.look().await {
                Ok(ExecState { running: true, pid: Some(pid), .. }) => {
                    let traces = self.shared.traces.clone();
                    return beside(move || traces.find(pid)).await.unwrap_or(Sight::Hidden);
                }
                Ok(ExecState { running: false, exit_code: Some(_), .. }) => return Sight::Over,
                Err(ExecError::Engine(error)) if error.is_not_found() => return Sight::Over,
                // Being started, or the engine is away.
                Ok(_) => {}
                Err(error) => debug!(exec = self.shared.id, %error, "cannot look at an exec yet"),
            }
            sleep(pause).await;
            pause = longer(pause, LONGEST_PAUSE);
        }
    }

    async fn look(&self) -> Result<ExecState, ExecError> {
        Ok(self.shared.engine.inspect_exec(&self.shared.id).await?)
    }

    /// Whether it runs, as far as the engine says; while it says nothing, it does.
    async fn goes_on(&self) -> bool {
        match self.look().await {
            Ok(state) => state.running || state.exit_code.is_none(),
            Err(ExecError::Engine(error)) => !error.is_not_found(),
            Err(_) => true,
        }
    }

    fn no_exit_code(&self) -> ExecError {
        ExecError::NoExitCode {
            exec: self.shared.id.clone(),
            container: self.shared.traces.container.clone(),
        }
    }
}

fn longer(pause: Duration, longest: Duration) -> Duration {
    (pause * 2).min(longest)
}

const PROCESS_TABLE: &str = "/proc";

/// Looks at the whole process table that are under way at once, for all execs together.
static STRIKES: Semaphore = Semaphore::const_new(2);

/// Most ends are known to the engine at once.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// For so long an end is awaited by asking; then it is worth finding the process.
const SOON: Duration = Duration::from_millis(64);

/// How rarely the engine is asked at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// So many looks in a row must find nobody.
const LOOKS: u32 = 2;

/// The same while somebody shows no environment: long enough for any exec, not for ever, since
/// one that was started with an empty environment stays like that.
const UNCLEAR_LOOKS: u32 = 20;

/// The longest pause between looks.
const LONGEST_LULL: Duration = Duration::from_millis(16);

/// How long the engine may take to notice an end: it waits for open pipes for some seconds.
const ENGINE_LAG: Duration = Duration::from_secs(20);

/// How long a process may take to disappear after SIGKILL.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// How long a process may take to go when its terminal has gone.
const HANG_UP_PATIENCE: Duration = Duration::from_secs(2);

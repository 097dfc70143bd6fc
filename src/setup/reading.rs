//! Makes the running dockerd read its configuration file again.
//!
//! On SIGHUP, dockerd applies the reloadable settings in its file, but keeps the old value of a missing setting. To
//! remove the last runtime, `dockbridge setup` keeps an empty `runtimes` in the file while dockerd reads the file.

use std::{path::Path, time::Duration};

use tokio::{
    runtime,
    time::{Instant, sleep},
};

use super::{
    daemon_json::{self, DEFAULT_LOWER, PROGRAM},
    error::SetupError,
};
use crate::{
    engine::client::{Engine, Timeouts},
    error::chain,
    host::{
        file::{self, is_same},
        pidfd::{ProcessHandle, ProcessSignal},
        processes::{Processes, flag_values},
    },
    model::{engine::EngineInfo, oci_edits::RUNTIME},
};

/// The dockerd process behind a socket.
pub(super) struct Daemon {
    pub(super) pid: u32,
    pub(super) flags: DaemonFlags,
}

/// The values of dockerd's flags that concern `daemon.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonFlags {
    /// `--config-file`.
    pub config_file: Option<String>,
    /// Whether `--add-runtime` is set. With this flag, dockerd refuses `runtimes` in `daemon.json`.
    pub adds_runtimes: bool,
    /// Values of `--log-opt`, each as `key=value`.
    pub log_options: Vec<String>,
    /// Values of `--default-ulimit`, each as `name=soft` or `name=soft:hard`.
    pub ulimits: Vec<String>,
}

/// The configuration file that dockerd must read, whether `dockbridge setup` has changed it or not.
pub(super) struct Reading<'a> {
    pub(super) socket: &'a Path,
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
    /// The path of dockbridge-runtime that dockerd must report afterwards; `None` for an undo.
    pub(super) wanted: Option<&'a Path>,
    pub(super) is_changed: bool,
}

impl DaemonFlags {
    /// Parses dockerd's command line, whose first word is the program. The last `--config-file` applies.
    pub fn read(words: &[String]) -> Self {
        let values = |name| flag_values(words, name).into_iter().map(str::to_owned);
        Self {
            config_file: values("--config-file").next_back(),
            adds_runtimes: values("--add-runtime").next().is_some(),
            log_options: values("--log-opt").collect(),
            ulimits: values("--default-ulimit").collect(),
        }
    }
}

fn restart(why: &str) -> String {
    format!("{why}: restart Docker ({ENDS})")
}

/// A line for each of the engine's runtimes, except dockbridge-runtime and runtimes with the path `runc`: whether
/// dockbridge-runtime runs it in pods. Empty if the engine does not answer.
pub(super) fn runtimes(socket: &Path) -> Result<Vec<String>, SetupError> {
    let engine = Engine::new(socket.to_owned(), Timeouts::default());
    let asked = async {
        engine.negotiate().await?;
        engine.info().await
    };
    let Ok(EngineInfo { runtimes, default_runtime, .. }) = wait(asked)? else {
        return Ok(Vec::new());
    };
    let others = runtimes.iter().filter(|(name, it)| *name != RUNTIME && it.path != DEFAULT_LOWER);
    let told = others.map(|(name, runtime)| {
        let or_none = if *name == default_runtime { " or without a handler" } else { "" };
        let used = match runtime.ends_in_runc() {
            true => format!("{PROGRAM} runs {}", runtime.path),
            false => {
                format!("{PROGRAM} is not used: the runtime does not report that it runs runc")
            }
        };
        format!("pods with the handler {name:?}{or_none}: {used}")
    });
    Ok(told.collect())
}

fn wait<T>(work: impl Future<Output = T>) -> Result<T, SetupError> {
    Ok(runtime::Builder::new_current_thread().enable_all().build()?.block_on(work))
}

impl Reading<'_> {
    /// Makes a running dockerd read the file, and waits up to 10 s until dockerd reports the change. The inner `Ok`
    /// says what happened, the inner `Err` what the administrator must do.
    pub(super) fn run(
        self,
        processes: &Processes,
        daemon: Option<Daemon>,
    ) -> Result<Result<String, String>, SetupError> {
        wait(self.ask(processes, daemon))?
    }

    async fn ask(
        self,
        processes: &Processes,
        daemon: Option<Daemon>,
    ) -> Result<Result<String, String>, SetupError> {
        let engine = Engine::new(self.socket.to_owned(), Timeouts::default());
        if let Err(error) = engine.negotiate().await {
            let error = chain(&error);
            return Ok(match daemon {
                Some(Daemon { pid, .. }) => {
                    Err(restart(&format!("cannot call dockerd (process {pid}): {error}")))
                }
                None if self.is_changed => {
                    Ok(format!("Docker will read the file when Docker starts ({error})"))
                }
                None => Ok("nothing was changed".to_owned()),
            });
        }
        if !self.is_changed && self.is_reached(&engine).await {
            return Ok(Ok(self.reached()));
        }
        let Some(Daemon { pid, flags }) = daemon else {
            let why = format!(
                "cannot find the dockerd of this host that serves {}",
                self.socket.display()
            );
            return Ok(Err(restart(&why)));
        };
        let read = flags.config_file.unwrap_or_else(|| USUAL_FILE.to_owned());
        if !is_same(Path::new(&read), self.path) {
            return Ok(Err(format!(
                "dockerd (process {pid}) reads another file: {read} (to change that file, give its \
                 absolute path with --daemon-json)"
            )));
        }
        let is_empty = self.wanted.is_none() && !flags.adds_runtimes;
        let passing = if is_empty { daemon_json::with_runtimes(self.text) } else { None };
        if let Some(text) = &passing {
            file::replace_in_place(self.path, text.as_bytes())?;
        }
        let reached = self.hang_up(processes, pid, &engine).await;
        if passing.is_some() {
            file::replace_in_place(self.path, self.text.as_bytes())?;
        }
        Ok(reached)
    }

    async fn hang_up(
        &self,
        processes: &Processes,
        pid: u32,
        engine: &Engine,
    ) -> Result<String, String> {
        let process = processes.get(pid).map(|one| ProcessHandle::take(processes, one.who));
        let asked = match process {
            Some(Ok(Some(handle))) => handle.signal(ProcessSignal::HangUp),
            Some(Err(error)) => Err(error),
            Some(Ok(None)) | None => {
                return Err(restart(&format!("dockerd (process {pid}) has ended")));
            }
        };
        asked.map_err(|error| {
            restart(&format!("cannot signal dockerd (process {pid}) to read the file: {error}"))
        })?;
        let end = Instant::now() + TIME_TO_READ;
        while !self.is_reached(engine).await {
            if Instant::now() > end {
                // A configuration file that dockerd refuses would also prevent dockerd's next start.
                return Err(format!(
                    "dockerd (process {pid}) did not apply the file within 10 s: see Docker's log. Restart \
                     Docker ({ENDS}) once this command succeeds: dockerd --validate --config-file {}",
                    self.path.display()
                ));
            }
            sleep(INTERVAL).await;
        }
        Ok(self.reached())
    }

    async fn is_reached(&self, engine: &Engine) -> bool {
        let Ok(info) = engine.info().await else { return false };
        info.runtimes.get(RUNTIME).map(|ours| Path::new(&ours.path)) == self.wanted
    }

    fn reached(&self) -> String {
        let has = if self.wanted.is_some() { "has" } else { "does not have" };
        format!("Docker {has} the runtime {RUNTIME:?}")
    }
}

/// The effect of a restart of dockerd, for messages.
const ENDS: &str = "without live-restore, a restart ends every container";
const TIME_TO_READ: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(100);
/// The configuration file that a dockerd of root reads if no flag names another file.
pub const USUAL_FILE: &str = "/etc/docker/daemon.json";

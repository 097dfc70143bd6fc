//! The streams of processes. Docker's exec API: create, start, inspect and resize a process in a running
//! container. The engine can neither kill such a process nor wait for it. And the attach API, for the main
//! process of a container.

use hyper::Method;

use super::{
    address,
    client::Engine,
    error::{Call, EngineError, Subject},
    hijack::{Input, Output},
};
use crate::{
    model::stream::{Streams, TerminalSize},
    wire::docker,
};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The process ran, and exited with this code.
    Exited(i32),
    /// The process never started. The engine may have an exit code for this, and sends the reason as
    /// output.
    NeverBegun(Option<i32>),
}

/// A process to start.
#[derive(Clone, Copy, Debug)]
pub struct ExecRequest<'a> {
    pub command: &'a [String],
    pub streams: Streams,
    /// `NAME=value`, added to the container's environment.
    pub env: &'a [String],
    /// The initial size of its terminal. Engines before API 1.42 ignore it.
    pub size: Option<TerminalSize>,
}

/// The result of an inspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecState {
    /// The process has started and, according to the engine, not ended.
    pub running: bool,
    /// Its pid in the engine's pid namespace. None before it has one.
    pub pid: Option<u32>,
    /// Its exit code. None before it has ended.
    pub exit_code: Option<i32>,
}

impl ExecState {
    /// Whether it was started and has ended.
    pub fn has_ended(self) -> bool {
        !self.running && self.exit_code.is_some()
    }

    /// How the exec ended; none if it has not.
    pub fn ending(self) -> Option<Ending> {
        let code = self.exit_code.filter(|_| self.has_ended())?;
        Some(if self.pid.is_some() { Ending::Exited(code) } else { Ending::NeverBegun(Some(code)) })
    }

    /// The same for an exec that was started and whose output has ended. This includes an exec that the
    /// engine gave up without reporting it.
    pub fn conclusion(self) -> Option<Ending> {
        let given_up = !self.running && self.exit_code.is_none() && self.pid.is_none();
        self.ending().or(given_up.then_some(Ending::NeverBegun(None)))
    }
}

impl Engine {
    /// Creates an exec and returns its id. Nothing runs yet. Fails with [`EngineError::NotFound`] if there is
    /// no such container, with [`EngineError::Conflict`] if it is paused or does not run.
    pub async fn create_exec(
        &self,
        container: &str,
        request: &ExecRequest<'_>,
    ) -> Result<String, EngineError> {
        let subject = Subject::container(container);
        let create = self.request(Method::POST, "create an exec in", subject, "/exec")?;
        let body = docker::ExecConfig {
            attach_stdin: Some(request.streams.stdin),
            attach_stdout: Some(request.streams.stdout),
            attach_stderr: Some(request.streams.stderr),
            tty: Some(request.streams.tty),
            console_size: request.size.map(|size| vec![size.height.into(), size.width.into()]),
            detach_keys: Some(DETACH_KEYS.to_owned()),
            env: Some(request.env.to_vec()),
            cmd: Some(request.command.to_vec()),
            ..docker::ExecConfig::default()
        };
        Ok(self.created(create.with_json(&body)?).await?.id)
    }

    /// Starts an exec and connects to it. `tty` must be the same as at the create.
    ///
    /// Never repeated automatically. A process that cannot be started is not an error here: the engine
    /// writes the reason as output, and the exit code is 126, 127 or 128.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] if there is no such exec, [`EngineError::Conflict`] if it was started before
    /// or its container no longer runs.
    pub async fn start_exec(&self, exec: &str, tty: bool) -> Result<(Output, Input), EngineError> {
        let body = serde_json::json!({ "Detach": false, "Tty": tty });
        let start = self.request(Method::POST, "start", Subject::exec(exec), "/start")?;
        self.hijack(start.with_json(&body)?, tty).await
    }

    /// Inspects an exec. The engine forgets it a few minutes after its end. Fails with
    /// [`EngineError::NotFound`] if there is no such exec.
    pub async fn inspect_exec(&self, exec: &str) -> Result<ExecState, EngineError> {
        let request = self.request(Method::GET, Call::INSPECT, Subject::exec(exec), "/json")?;
        let stated: docker::ExecInspect = self.json(request).await?;
        Ok(ExecState {
            running: stated.running,
            pid: u32::try_from(stated.pid).ok().filter(|pid| *pid > 0),
            // Exit codes are small. Any other number must at least not be 0.
            exit_code: stated.exit_code.map(|code| i32::try_from(code).unwrap_or(-1)),
        })
    }

    /// Resizes the terminal of an exec or of a container's main process. Waits until the exec has started.
    /// Fails with [`EngineError::NotFound`] if there is no such object, with other errors if it does not run.
    pub async fn resize(&self, subject: Subject, size: TerminalSize) -> Result<(), EngineError> {
        let (height, width) = (size.height.to_string(), size.width.to_string());
        let tail = address::with_query("/resize", &[("h", &height), ("w", &width)]);
        let resize = self.request(Method::POST, "resize", subject, &tail)?;
        self.done(resize.repeatable()).await
    }

    /// Connects to the main process. Output from before this is not sent. `streams.tty` must be that of the
    /// container, because it determines the framing of the output. Fails with [`EngineError::NotFound`] if
    /// there is no such container, with [`EngineError::Conflict`] if it is paused or does not run.
    pub async fn attach(
        &self,
        container: &str,
        streams: Streams,
    ) -> Result<(Output, Input), EngineError> {
        let flag = |on: bool| if on { "1" } else { "0" };
        let query = [
            ("stream", "1"),
            ("logs", "0"),
            ("stdin", flag(streams.stdin)),
            ("stdout", flag(streams.stdout)),
            ("stderr", flag(streams.stderr)),
            ("detachKeys", DETACH_KEYS),
        ];
        let (subject, tail) =
            (Subject::container(container), address::with_query("/attach", &query));
        let attach = self.request(Method::POST, "attach to", subject, &tail)?;
        self.hijack(attach, streams.tty).await
    }
}

/// The key sequence that disconnects a terminal. The engine cannot be configured to have none: without a
/// setting it uses ctrl-p ctrl-q. It holds the first key back until the next key is typed. So the sequence
/// begins with NUL (ctrl-space), which programs use as a prefix or to mark a place, and neither has a
/// visible effect before the next key. The rest is a sequence that nobody types.
const DETACH_KEYS: &str = "ctrl-@,ctrl-^,ctrl-@,ctrl-^,ctrl-@,ctrl-^,ctrl-@,ctrl-^";

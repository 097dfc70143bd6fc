//! Docker's exec API creates, starts and inspects a process in a running container, and resizes its terminal. The exec
//! API can neither kill the process nor wait for its end. The attach API connects to a container's main process.

use hyper::Method;

use super::{
    api_path,
    client::Engine,
    error::{Call, EngineError, Subject},
    hijack::{Input, Output},
};
use crate::{
    model::stream::{Streams, TerminalSize},
    wire::docker,
};

/// How the process of an exec ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exited(i32),
    /// The process never started. The engine sends the reason as output, and perhaps reports an exit code.
    NeverBegun(Option<i32>),
}

/// A process that an exec is to start.
#[derive(Clone, Copy, Debug)]
pub struct ExecRequest<'a> {
    pub command: &'a [String],
    pub streams: Streams,
    /// Variables in the form `NAME=value`, added to the container's environment.
    pub env: &'a [String],
    /// The initial size of the process's terminal. Engines before Docker 23.0 ignore this size.
    pub size: Option<TerminalSize>,
}

/// The state of an exec's process, from an inspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecState {
    /// Whether the engine reports the exec as running: from the request to start it, even before the process exists.
    pub running: bool,
    /// The process's pid in the engine's pid namespace. None if the process has no pid yet, or never started.
    pub pid: Option<u32>,
    pub exit_code: Option<i32>,
}

impl ExecState {
    /// Whether the process has ended or could not be started, and the engine knows an exit code.
    pub fn has_ended(self) -> bool {
        !self.running && self.exit_code.is_some()
    }

    /// How the process ended; None if [`Self::has_ended`] is false.
    pub fn ending(self) -> Option<Ending> {
        let code = self.exit_code.filter(|_| self.has_ended())?;
        Some(if self.pid.is_some() { Ending::Exited(code) } else { Ending::NeverBegun(Some(code)) })
    }

    /// How the process ended, for an exec that was started and whose output has ended. Also recognises an exec
    /// that the engine abandoned without an exit code.
    pub fn conclusion(self) -> Option<Ending> {
        let given_up = !self.running && self.exit_code.is_none() && self.pid.is_none();
        self.ending().or(given_up.then_some(Ending::NeverBegun(None)))
    }
}

impl Engine {
    /// Creates an exec and returns its id. Fails with [`EngineError::NotFound`] if the container does not
    /// exist, with [`EngineError::Conflict`] if the container is paused or does not run.
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

    /// Starts an exec and connects to its process. `tty` must have the same value as when the exec was created.
    ///
    /// If the connection breaks, the client does not repeat this call. If the process cannot be started, the
    /// call succeeds: the engine sends the reason as output, and the exit code, if there is one, is 126, 127 or 128.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] if the exec does not exist, [`EngineError::Conflict`] if its container is paused or no
    /// longer runs.
    pub async fn start_exec(&self, exec: &str, tty: bool) -> Result<(Output, Input), EngineError> {
        let body = serde_json::json!({ "Detach": false, "Tty": tty });
        let start = self.request(Method::POST, "start", Subject::exec(exec), "/start")?;
        self.hijack(start.with_json(&body)?, tty).await
    }

    /// Inspects an exec. The engine forgets an exec a few minutes after its end. Fails with
    /// [`EngineError::NotFound`] if the exec does not exist.
    pub async fn inspect_exec(&self, exec: &str) -> Result<ExecState, EngineError> {
        let request = self.request(Method::GET, Call::INSPECT, Subject::exec(exec), "/json")?;
        let stated: docker::ExecInspect = self.json(request).await?;
        Ok(ExecState {
            running: stated.running,
            pid: u32::try_from(stated.pid).ok().filter(|pid| *pid > 0),
            // A number that does not fit becomes -1, so that it does not look like success.
            exit_code: stated.exit_code.map(|code| i32::try_from(code).unwrap_or(-1)),
        })
    }

    /// Resizes the terminal of an exec or of a container's main process. The engine waits up to 10 seconds for an exec
    /// to start. Fails with [`EngineError::NotFound`] if the exec or container does not exist, with other errors if its
    /// process does not run.
    pub async fn resize(&self, subject: Subject, size: TerminalSize) -> Result<(), EngineError> {
        let (height, width) = (size.height.to_string(), size.width.to_string());
        let tail = api_path::with_query("/resize", &[("h", &height), ("w", &width)]);
        let resize = self.request(Method::POST, "resize", subject, &tail)?;
        self.done(resize.repeatable()).await
    }

    /// Connects to a container's main process, without earlier output. `streams.tty` must have the
    /// container's own value, which determines the framing. Fails with [`EngineError::NotFound`] if the
    /// container does not exist, with [`EngineError::Conflict`] if the container is paused or restarting. The engine
    /// also connects to a container that does not run.
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
            (Subject::container(container), api_path::with_query("/attach", &query));
        let attach = self.request(Method::POST, "attach to", subject, &tail)?;
        self.hijack(attach, streams.tty).await
    }
}

/// The key sequence with which the engine disconnects a terminal: one that nobody types, instead of the default ctrl-p
/// ctrl-q. The engine holds the first key back until the next key is typed. So the sequence begins with NUL
/// (ctrl-space), which few programs use.
const DETACH_KEYS: &str = "ctrl-@,ctrl-^,ctrl-@,ctrl-^,ctrl-@,ctrl-^,ctrl-@,ctrl-^";

//! Docker's exec API: create, start, inspect and resize a process in a running container. The engine
//! can neither kill one nor wait for one.

use hyper::Method;

use super::{
    address,
    client::Engine,
    error::{Call, EngineError, Subject},
    hijack::Hijacked,
};
use crate::{
    model::stream::{Streams, TerminalSize},
    wire::docker,
};

/// How a process came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It ran, and exited so.
    Exited(i32),
    /// There never was one. The engine may have an exit code for that, and its reason stands where
    /// the output would.
    NeverBegun(Option<i32>),
}

/// A process to be started.
#[derive(Clone, Copy, Debug)]
pub struct ExecRequest<'a> {
    pub command: &'a [String],
    pub streams: Streams,
    /// `NAME=value`, added to the container's own.
    pub env: &'a [String],
    /// What its terminal measures from the beginning; engines before API 1.42 ignore it.
    pub size: Option<TerminalSize>,
}

/// The result of an inspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecState {
    /// It has started and, as far as the engine knows, not ended.
    pub running: bool,
    /// Its pid as the engine sees it; none before it has one.
    pub pid: Option<u32>,
    /// How it ended; none before.
    pub exit_code: Option<i32>,
}

impl ExecState {
    /// Whether it was started and has ended.
    pub fn has_ended(self) -> bool {
        !self.running && self.exit_code.is_some()
    }

    /// How it ended, once it has.
    pub fn ending(self) -> Option<Ending> {
        let code = self.exit_code.filter(|_| self.has_ended())?;
        Some(if self.pid.is_some() { Ending::Exited(code) } else { Ending::NeverBegun(Some(code)) })
    }

    /// The same for an exec that was started and whose output has ended. An exec that the engine gave up
    /// without reporting it has also ended.
    pub fn conclusion(self) -> Option<Ending> {
        let given_up = !self.running && self.exit_code.is_none() && self.pid.is_none();
        self.ending().or(given_up.then_some(Ending::NeverBegun(None)))
    }
}

impl Engine {
    /// Creates an exec and returns its id. Nothing runs yet.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] without such a container, [`EngineError::Conflict`] when it does
    /// not run or is paused.
    pub async fn create_exec(
        &self,
        container: &str,
        request: &ExecRequest<'_>,
    ) -> Result<String, EngineError> {
        let subject = Subject::Container(container.to_owned());
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

    /// Starts an exec and connects to it. `tty` as it was made.
    ///
    /// Never repeated by itself. That nothing could be started is no error here: the engine
    /// writes the reason as output, and the exit code is 126, 127 or 128.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] without such an exec, [`EngineError::Conflict`] when it was
    /// started before or its container does not run any more.
    pub async fn start_exec(&self, exec: &str, tty: bool) -> Result<Hijacked, EngineError> {
        let body = serde_json::json!({ "Detach": false, "Tty": tty });
        let start = self.request(Method::POST, "start", subject(exec), "/start")?;
        self.hijack(start.with_json(&body)?, tty).await
    }

    /// Inspects an exec. The engine forgets one some minutes after its end.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] without such an exec.
    pub async fn inspect_exec(&self, exec: &str) -> Result<ExecState, EngineError> {
        let request = self.request(Method::GET, Call::INSPECT, subject(exec), "/json")?;
        let stated: docker::ExecInspect = self.json(request).await?;
        Ok(ExecState {
            running: stated.running,
            pid: u32::try_from(stated.pid).ok().filter(|pid| *pid > 0),
            exit_code: stated.exit_code.map(narrow),
        })
    }

    /// Resizes an exec's terminal. Waits until it has started.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] without such an exec, others when it has ended.
    pub async fn resize_exec(&self, exec: &str, size: TerminalSize) -> Result<(), EngineError> {
        let tail = address::with_size("/resize", size);
        self.done(self.request(Method::POST, "resize", subject(exec), &tail)?.repeatable()).await
    }
}

fn subject(exec: &str) -> Subject {
    Subject::Exec(exec.to_owned())
}

/// Exit codes are small; what is not is at least not success.
fn narrow(code: i64) -> i32 {
    i32::try_from(code).unwrap_or(-1)
}

/// The key sequence that ends a terminal's connection. The engine cannot be told to have none: without
/// one it uses ctrl-p ctrl-q. It holds the first key back until the next key is typed, so the sequence
/// begins with NUL (ctrl-space), which programs use as a prefix or to mark a place: neither shows before
/// the next key. The rest is a sequence that nobody types.
pub(super) const DETACH_KEYS: &str = "ctrl-@,ctrl-^,ctrl-@,ctrl-^,ctrl-@,ctrl-^,ctrl-@,ctrl-^";

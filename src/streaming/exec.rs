//! Exec: connects a client with a new process in a running container.

use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    command::{
        client::Client,
        outcome::Outcome,
        session::{InputEnd, SessionEnd, Terminal, copy},
    },
    service::Streaming,
};
use crate::{
    engine::exec::ExecRequest,
    error::chain,
    exec::{leftovers::Leftover, process::Exec},
    model::{
        engine::ApiVersion,
        stream::{ExecSpec, TerminalSize},
    },
};

/// Runs a command, and serves its client until the command ends, the client or the engine disconnects, or
/// dockbridge stops. Returns `None` if the client disconnected. If the session ends before the command, a process with
/// a terminal gets SIGHUP, and later SIGKILL if it still runs. A process without a terminal continues, and its input is
/// closed.
pub(super) async fn run(
    streaming: &Streaming,
    spec: &ExecSpec,
    client: &mut Client,
    stop: &CancellationToken,
) -> Result<Option<Outcome>, String> {
    let (engine, streams) = (&streaming.engine, spec.streams);
    let container = streaming.store.snapshot().container(&spec.container).cloned();
    let container = container.ok_or("the container has been removed")?;
    let size = client.first_size().await;
    if engine.api() < ApiVersion::EXEC_SIZE
        && let Some(sizes) = &mut client.sizes
    {
        sizes.repeat(size);
    }
    let request = ExecRequest { command: &spec.command, streams, env: &[], size };
    let exec = Exec::make(engine, &container, &request).await.map_err(|error| chain(&error))?;
    let hijacked = match exec.start().await {
        Ok(hijacked) => hijacked,
        Err(error) => {
            let (left, stop) = (error.after_start(), stop.clone());
            if left != Leftover::Nothing {
                tokio::spawn(async move { exec.clear(left, &stop).await });
            }
            return Err(chain(&error));
        }
    };
    // The end of the client's input does not end a terminal's input: only an end-of-file character does.
    let input_end = if streams.tty { InputEnd::Stays } else { InputEnd::Closes };
    let end = copy(client, hijacked, &exec, input_end, stop).await;
    match end {
        SessionEnd::ClientGone | SessionEnd::Stopping if streams.tty => exec.hang_up().await,
        // Without the engine the hang-up may take long, so the client does not wait for the hang-up.
        SessionEnd::Broken(_) if streams.tty => {
            let exec = exec.clone();
            drop(tokio::spawn(async move { exec.hang_up().await }));
        }
        _ => {}
    }
    match end {
        SessionEnd::Ended(0) => Ok(Some(Outcome::Success)),
        SessionEnd::Ended(code) => Ok(Some(Outcome::Exit(code))),
        SessionEnd::Broken(reason) => Err(reason),
        SessionEnd::Stopping => Err("dockbridge is shutting down".to_owned()),
        SessionEnd::ClientGone => Ok(None),
    }
}

impl Terminal for Exec {
    async fn resize(&self, size: TerminalSize) -> bool {
        let resized = self.resize(size).await;
        resized.inspect_err(|error| debug!(%error, "cannot resize the terminal; retrying")).is_ok()
    }
}

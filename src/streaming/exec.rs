//! Exec: a client and a process of its own in a container that runs.

use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    command::{
        client::Client,
        outcome::Outcome,
        session::{End, InputEnd, Process, copy},
    },
    room::Streaming,
};
use crate::{
    error::chain,
    exec::process::Exec,
    model::stream::{ExecSpec, TerminalSize},
};

/// Runs the command until it ends or the client leaves; none in the latter case.
///
/// Without its client a process goes on, its input closed; one with a terminal is hung up.
pub(super) async fn run(
    streaming: &Streaming,
    spec: &ExecSpec,
    client: &mut Client,
    stop: &CancellationToken,
) -> Option<Outcome> {
    let (engine, streams) = (&streaming.engine, spec.streams);
    let Some(container) = streaming.store.snapshot().container(&spec.container).cloned() else {
        return Some(failure("the container has been removed"));
    };
    let size = client.first_size().await;
    let begun = Exec::begin(engine, &container, &spec.command, streams, size).await;
    let (exec, hijacked) = match begun {
        Ok(begun) => begun,
        Err(error) => return Some(failure(&chain(&error))),
    };
    // A terminal's input has no end but the one typed into it.
    let input_end = if streams.tty { InputEnd::Stays } else { InputEnd::Closes };
    let end = copy(client, hijacked, &exec, input_end, stop).await;
    if streams.tty && matches!(end, End::ClientGone | End::Stopping) {
        exec.hang_up().await;
    }
    match end {
        End::Ended => Some(outcome(&exec).await),
        End::Broken(error) => Some(failure(&chain(&error))),
        End::Stopping => Some(failure("dockbridge is being stopped")),
        End::ClientGone => None,
    }
}

impl Process for Exec {
    const OUTLIVES_OUTPUT: bool = true;

    async fn ended(&self) {
        self.ended().await;
    }

    async fn resize(&self, size: TerminalSize) {
        if let Err(error) = self.resize(size).await {
            debug!(%error, "the terminal keeps its size");
        }
    }
}

async fn outcome(exec: &Exec) -> Outcome {
    match exec.exit_code().await {
        Ok(0) => Outcome::Success,
        Ok(code) => Outcome::Exit(code),
        Err(error) => failure(&chain(&error)),
    }
}

fn failure(reason: &str) -> Outcome {
    Outcome::Failure(format!("error executing command in container: {reason}"))
}

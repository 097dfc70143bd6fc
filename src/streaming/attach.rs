//! Attach: a client and the main process of a container. Whatever the client does, the process
//! stays.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

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
    model::{
        id::ContainerId,
        stream::{AttachSpec, Streams, TerminalSize},
    },
};

/// Connects the client until the container ends or the client leaves; none in the latter case.
pub(super) async fn run(
    streaming: &Streaming,
    spec: &AttachSpec,
    client: &mut Client,
    stop: &CancellationToken,
) -> Option<Outcome> {
    let Some(container) = streaming.store.snapshot().container(&spec.container).cloned() else {
        return Some(failure("the container has been removed"));
    };
    let wanted = &container.document.spec;
    let streams = Streams { tty: wanted.tty, ..spec.streams };
    let hijacked = match streaming.engine.attach(container.id.as_str(), streams).await {
        Ok(hijacked) => hijacked,
        Err(error) => return Some(failure(&chain(&error))),
    };
    let process = Main { streaming, id: &container.id };
    // The engine ends the whole attachment when input ends that it must not pass on.
    let once = wanted.stdin_once && !wanted.tty;
    let input_end = if once { InputEnd::Closes } else { InputEnd::Stays };
    match copy(client, hijacked, &process, input_end, stop).await {
        End::Ended => Some(Outcome::Success),
        End::Stopping => Some(failure("dockbridge is being stopped")),
        End::Broken(error) => Some(failure(&chain(&error))),
        End::ClientGone => None,
    }
}

/// The main process of a container.
struct Main<'a> {
    streaming: &'a Streaming,
    id: &'a ContainerId,
}

impl Process for Main<'_> {
    // Or the engine has let go of us.
    const OUTLIVES_OUTPUT: bool = false;

    async fn ended(&self) {
        let id = self.id.as_str();
        let store = &self.streaming.store;
        store
            .wait(Duration::MAX, |now| {
                let runs = now.container(id).is_some_and(|found| found.process.is_running());
                (!runs).then_some(())
            })
            .await;
    }

    async fn resize(&self, size: TerminalSize) {
        if let Err(error) = self.streaming.engine.resize_container(self.id.as_str(), size).await {
            tracing::debug!(container = %self.id, %error, "the terminal keeps its size");
        }
    }
}

fn failure(reason: &str) -> Outcome {
    Outcome::Failure(format!("error attaching to container: {reason}"))
}

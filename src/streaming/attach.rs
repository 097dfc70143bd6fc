//! Attach: a client and the main process of a container. Whatever the client does, the process
//! stays.

use std::{convert::Infallible, future::pending, time::Duration};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    command::{
        client::Client,
        outcome::Outcome,
        session::{InputEnd, Process, SessionEnd, copy},
    },
    service::Streaming,
};
use crate::{
    error::chain,
    model::{
        engine::EngineHealth,
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
    let lost = CancellationToken::new();
    let process = Main { streaming, id: &container.id, lost: lost.clone() };
    // The engine ends the attach session when input ends that it must not pass on.
    let once = wanted.stdin_once && !wanted.tty;
    let input_end = if once { InputEnd::Closes } else { InputEnd::Stays };
    let end = tokio::select! {
        end = copy(client, hijacked, &process, input_end, stop) => end,
        never = note_loss(streaming, lost) => match never {},
    };
    match end {
        SessionEnd::Ended => Some(Outcome::Success),
        SessionEnd::Stopping => Some(failure("dockbridge is shutting down")),
        SessionEnd::Broken(reason) => Some(failure(&reason)),
        SessionEnd::ClientGone => None,
    }
}

/// The main process of a container.
struct Main<'a> {
    streaming: &'a Streaming,
    id: &'a ContainerId,
    /// Cancelled when the engine was away, if only for a moment.
    lost: CancellationToken,
}

impl Process for Main<'_> {
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

    /// The output of a process that goes on may end: it has closed it, or the engine has let go of
    /// us after the last input. But an engine that ends closes all it has open at once, the stream
    /// of events, too.
    async fn concluded(&self) -> Result<(), String> {
        if timeout(END_LAG, self.ended()).await.is_ok() || !self.lost.is_cancelled() {
            return Ok(());
        }
        let gone = |_| {
            format!(
                "the docker engine closed the connection and the streams; container {} keeps running",
                self.id
            )
        };
        timeout(LONGER_END_LAG, self.ended()).await.map_err(gone)
    }

    async fn resize(&self, size: TerminalSize) {
        if let Err(error) = self.streaming.engine.resize_container(self.id.as_str(), size).await {
            tracing::debug!(container = %self.id, %error, "cannot resize the terminal; it keeps its size");
        }
    }
}

async fn note_loss(streaming: &Streaming, lost: CancellationToken) -> Infallible {
    let away = |health: &EngineHealth| matches!(health, EngineHealth::Unreachable { .. });
    streaming.store.when(|now| away(&now.health).then_some(())).await;
    lost.cancel();
    pending().await
}

/// How much later than its streams the end of a container, or of the engine, may be noticed.
const END_LAG: Duration = Duration::from_secs(1);
/// The same of a container while the engine is slow.
const LONGER_END_LAG: Duration = Duration::from_secs(4);

fn failure(reason: &str) -> Outcome {
    Outcome::Failure(format!("error attaching to container: {reason}"))
}

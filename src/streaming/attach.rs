//! Attach: connects a client with a container's main process. dockbridge does not end the main process when the
//! client disconnects.

use std::{convert::Infallible, future::pending, time::Duration};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    command::{
        client::Client,
        outcome::Outcome,
        session::{InputEnd, SessionEnd, Terminal, copy},
    },
    service::Streaming,
};
use crate::{
    engine::error::Subject,
    error::chain,
    exec::{error::ExecError, follow::Process},
    model::{
        engine::EngineHealth,
        id::ContainerId,
        stream::{AttachSpec, Streams, TerminalSize},
    },
    store::snapshot::Snapshot,
};

/// Connects the client until the container ends, the engine ends the session, or dockbridge stops. Returns
/// `None` if the client disconnected first.
pub(super) async fn run(
    streaming: &Streaming,
    spec: &AttachSpec,
    client: &mut Client,
    stop: &CancellationToken,
) -> Result<Option<Outcome>, String> {
    let container = streaming.store.snapshot().container(&spec.container).cloned();
    let container = container.ok_or("the container has been removed")?;
    let wanted = &container.document.spec;
    let streams = Streams { tty: wanted.tty, ..spec.streams };
    let attached = streaming.engine.attach(container.id.as_str(), streams).await;
    let hijacked = attached.map_err(|error| chain(&error))?;
    let lost = CancellationToken::new();
    let process = Main { streaming, id: &container.id, lost: lost.clone() };
    // At the end of the input, the engine closes the stdin of a container with `stdin_once` and without a terminal.
    // For other containers with a stdin, the engine ends the session, and a client with piped input waits for this end.
    let end = tokio::select! {
        end = copy(client, hijacked, &process, InputEnd::Closes, stop) => end,
        never = note_loss(streaming, lost) => match never {},
    };
    match end {
        SessionEnd::Ended(()) => Ok(Some(Outcome::Success)),
        SessionEnd::Stopping => Err("dockbridge is shutting down".to_owned()),
        SessionEnd::Broken(reason) => Err(reason),
        SessionEnd::ClientGone => Ok(None),
    }
}

/// The main process of a container.
struct Main<'a> {
    streaming: &'a Streaming,
    id: &'a ContainerId,
    /// Cancelled once the store cannot reach the engine, and still cancelled after the engine answers again.
    lost: CancellationToken,
}

impl Process for Main<'_> {
    type Report = ();
    type Outcome = ();

    async fn reported(&self) {
        let ended = |now: &Snapshot| (!now.runs(self.id.as_str())).then_some(());
        self.streaming.store.wait(Duration::MAX, ended).await;
    }

    async fn answered(&self) {
        while self.streaming.store.refresh_container(self.id.as_str()).await.is_err() {
            sleep(ASK_AGAIN).await;
        }
    }

    /// Finds out why the output ended. If the process still runs and the engine was reachable during the whole session,
    /// the engine has ended the session after the last input. If the engine stops, both the output and the engine's
    /// event stream end.
    async fn concluded(&self) -> Result<(), ExecError> {
        let asked = tokio::select! {
            biased;
            () = self.reported() => return Ok(()),
            asked = self.streaming.store.refresh_container(self.id.as_str()) => asked,
        };
        let was_unreachable = self.lost.is_cancelled();
        // If the container has ended, the engine reports the end soon after the engine answers again.
        let has_ended = async || timeout(END_REPORT, self.reported()).await.is_ok();
        if asked.is_ok() && (!was_unreachable || has_ended().await) {
            return Ok(());
        }
        Err(ExecError::AttachLost { container: self.id.as_str().to_owned() })
    }

    fn outcome(&self, (): (), _: &[u8]) -> Result<(), ExecError> {
        Ok(())
    }
}

impl Terminal for Main<'_> {
    async fn resize(&self, size: TerminalSize) -> bool {
        let subject = Subject::Container(self.id.to_string());
        let resized = self.streaming.engine.resize(subject, size).await;
        let log = |error: &_| {
            tracing::debug!(container = %self.id, %error, "cannot resize the terminal; retrying");
        };
        resized.inspect_err(log).is_ok()
    }
}

async fn note_loss(streaming: &Streaming, lost: CancellationToken) -> Infallible {
    let is_unreachable = |health: &EngineHealth| matches!(health, EngineHealth::Unreachable { .. });
    streaming.store.when(|now| is_unreachable(&now.health).then_some(())).await;
    lost.cancel();
    pending().await
}

/// How long an engine that was unreachable may take to report a container's end.
const END_REPORT: Duration = Duration::from_secs(10);

const ASK_AGAIN: Duration = Duration::from_millis(250);

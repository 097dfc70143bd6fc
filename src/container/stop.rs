//! StopContainer: ask, wait, kill. A later call with less patience makes the kill come sooner.

use std::{sync::PoisonError, time::Duration};

use tokio::{sync::watch, time::Instant};
use tracing::{info, warn};

use super::{error::ContainerError, room::Containers};
use crate::{engine::error::EngineError, error::Kind, model::id::ContainerId};

impl Containers {
    /// Stops a container: its stop signal, then SIGKILL after `grace`. Unknown and ended
    /// containers are fine. Returns once the store shows it ended.
    ///
    /// # Errors
    /// The engine fails, or the process survives SIGKILL.
    pub async fn stop(&self, id: &str, grace: Duration) -> Result<(), ContainerError> {
        let Some(container) = self.find(id).await? else { return Ok(()) };
        if !container.process.is_running() {
            // Perhaps the store is a blink behind a start; the engine's word counts.
            self.store.refresh_container(container.id.as_str()).await?;
            if !self.runs(&container.id) {
                return Ok(());
            }
        }
        let grace = grace.min(LONGEST_GRACE);
        self.hasten(&container.id, Instant::now() + grace);
        let room = self.clone();
        let id = container.id.clone();
        self.stopping.run(id.clone(), async move { room.stop_known(&id, grace).await }).await?
    }

    /// Kills a container at once and waits until the store shows it ended.
    ///
    /// # Errors
    /// The engine fails, or the process survives SIGKILL.
    pub async fn kill(&self, id: &ContainerId) -> Result<(), ContainerError> {
        self.stop(id.as_str(), Duration::ZERO).await
    }

    async fn stop_known(&self, id: &ContainerId, grace: Duration) -> Result<(), ContainerError> {
        let (sender, deadline) = watch::channel(Instant::now() + grace);
        self.deadlines().insert(id.clone(), sender);
        let stopped = self.ask_then_kill(id, grace, deadline).await;
        self.deadlines().remove(id);
        stopped?;
        self.await_end(id).await?;
        info!(container = %id, "container stopped");
        Ok(())
    }

    async fn ask_then_kill(
        &self,
        id: &ContainerId,
        grace: Duration,
        mut deadline: watch::Receiver<Instant>,
    ) -> Result<(), ContainerError> {
        if grace.is_zero() {
            return self.send_kill(id).await;
        }
        let asking = self.engine.stop_container(id.as_str(), grace);
        tokio::pin!(asking);
        loop {
            let kill_at = *deadline.borrow_and_update();
            tokio::select! {
                answer = &mut asking => return tolerate(answer),
                () = tokio::time::sleep_until(kill_at) => return self.send_kill(id).await,
                Ok(()) = deadline.changed() => {}
            }
        }
    }

    async fn send_kill(&self, id: &ContainerId) -> Result<(), ContainerError> {
        tolerate(self.engine.kill_container(id.as_str(), "SIGKILL").await)
    }

    /// Brings the kill of a stop under way forward to `at`, if that is sooner.
    fn hasten(&self, id: &ContainerId, at: Instant) {
        if let Some(deadline) = self.deadlines().get(id) {
            deadline.send_if_modified(|kill_at| {
                let sooner = at < *kill_at;
                if sooner {
                    *kill_at = at;
                }
                sooner
            });
        }
    }

    /// Waits until the store shows the container ended or gone.
    async fn await_end(&self, id: &ContainerId) -> Result<(), ContainerError> {
        let wanted = id.clone();
        let ended = self.store.wait(EVENT_PATIENCE, move |now| {
            let running = now.container(wanted.as_str()).is_some_and(|c| c.process.is_running());
            (!running).then_some(())
        });
        if ended.await.is_some() {
            return Ok(());
        }
        warn!(container = %id, "no exit event yet, asking the engine");
        let until = Instant::now() + KILL_PATIENCE;
        while Instant::now() < until {
            self.store.refresh_container(id.as_str()).await?;
            if !self.runs(id) {
                return Ok(());
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
        Err(ContainerError::Unkillable { id: id.to_string(), patience: KILL_PATIENCE })
    }

    fn runs(&self, id: &ContainerId) -> bool {
        self.store.snapshot().container(id.as_str()).is_some_and(|c| c.process.is_running())
    }

    fn deadlines(
        &self,
    ) -> std::sync::MutexGuard<'_, std::collections::HashMap<ContainerId, watch::Sender<Instant>>>
    {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A container that is gone or not running has been stopped by somebody else.
fn tolerate(answer: Result<(), EngineError>) -> Result<(), ContainerError> {
    match answer {
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::FailedPrecondition) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(()),
    }
}

/// A grace nobody means literally; it keeps deadline arithmetic in range.
const LONGEST_GRACE: Duration = Duration::from_secs(366 * 24 * 3600);
/// After a stop or kill was answered, how long the exit event may take before we ask.
const EVENT_PATIENCE: Duration = Duration::from_secs(2);
/// How long a process may take to disappear after SIGKILL.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// How often we ask meanwhile.
const POLL_EVERY: Duration = Duration::from_millis(200);

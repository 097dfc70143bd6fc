//! StopContainer: sends the stop signal, and SIGKILL if the container still runs after the grace period. A later call
//! whose grace period ends earlier makes the SIGKILL earlier. Pause containers get no grace period.
//!
//! The engine's answer does not prove that the container has ended, so a call succeeds only once the store does not
//! show the container as running.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tracing::{info, warn};

use super::service::Containers;
use crate::{
    engine::{client::Engine, error::EngineError},
    error::{Failure, Kind},
    model::{
        id::ContainerId,
        record::{ContainerRecord, Process},
    },
    store::{handle::Store, snapshot::Snapshot},
};

impl Containers {
    /// Stops a container, with SIGKILL at once if `grace` is zero. Also succeeds if the container does not exist or
    /// does not run. Fails if a container checkpoint delays the stop for too long, if the container does not end in
    /// time, or if the engine fails.
    pub async fn stop(&self, id: &str, grace: Duration) -> Result<(), Failure> {
        let Some(container) = self.node.find_container(id).await? else { return Ok(()) };
        let id = container.id.clone();
        self.stop_found(&container, grace).await?;
        self.node.nri.stop_container(id.as_str()).await;
        Ok(())
    }

    async fn stop_found(
        &self,
        container: &ContainerRecord,
        grace: Duration,
    ) -> Result<(), Failure> {
        let id = container.id.clone();
        if !container.process.is_running() {
            self.node.end_unpacking(&id).await?;
            // The store might not show a recent start yet, so this inspects the container.
            self.node.store.refresh_container(id.as_str()).await?;
            match self.node.store.snapshot().container(id.as_str()).map(|now| &now.process) {
                None | Some(Process::Created | Process::Exited { .. }) => return Ok(()),
                Some(_) => {}
            }
        }
        self.stop_within(id, grace.min(LONGEST_GRACE)).await
    }

    async fn stop_within(&self, id: ContainerId, grace: Duration) -> Result<(), Failure> {
        // Each caller keeps `deadline` until its call returns, so that later calls find it.
        let deadline = self.deadline(&id, Instant::now() + grace);
        let (service, shared, held) = (self.clone(), Arc::clone(&deadline), id.clone());
        let stop = async move { service.stop_known(&held, grace, &shared).await };
        self.stopping.run(id, stop).await?
    }

    /// Kills a container without a grace period, even if the store does not show it as running, and returns once the
    /// store does not. Fails as [`Self::stop`] does.
    pub async fn kill(&self, id: &str) -> Result<(), Failure> {
        let Some(container) = self.node.find_container(id).await? else { return Ok(()) };
        self.stop_within(container.id.clone(), Duration::ZERO).await
    }

    async fn stop_known(
        &self,
        id: &ContainerId,
        grace: Duration,
        deadline: &watch::Sender<Instant>,
    ) -> Result<(), Failure> {
        // A container that is frozen for a container checkpoint does not react to signals.
        let _thawed = self.node.thawed(id, grace).await?;
        self.ask_then_kill(id, grace, deadline.subscribe()).await?;
        await_end(&self.node.store, id.as_str(), |now| now.runs(id.as_str())).await?;
        info!(container = %id, "container stopped");
        Ok(())
    }

    async fn ask_then_kill(
        &self,
        id: &ContainerId,
        grace: Duration,
        mut deadline: watch::Receiver<Instant>,
    ) -> Result<(), Failure> {
        if grace.is_zero() {
            return self.kill_now(id).await;
        }
        let asking = self.node.engine.stop_container(id.as_str(), grace);
        tokio::pin!(asking);
        let mut is_answer_lost = false;
        loop {
            let kill_at = *deadline.borrow_and_update();
            tokio::select! {
                answer = &mut asking, if !is_answer_lost => match answer {
                    // The engine may have sent the stop signal, so dockbridge does not repeat the stop. It
                    // waits until the container has ended, or until the deadline.
                    Err(error) if error.leaves_outcome_open() => {
                        self.node.store.refresh_container(id.as_str()).await.map_err(|_| error)?;
                        is_answer_lost = true;
                    }
                    answer => return ended_is_fine(answer),
                },
                _ = self.node.store.when(|now| (!now.runs(id.as_str())).then_some(())), if is_answer_lost => {
                    return Ok(());
                }
                () = sleep_until(kill_at) => return self.kill_now(id).await,
                Ok(()) = deadline.changed() => {}
            }
        }
    }

    async fn kill_now(&self, id: &ContainerId) -> Result<(), Failure> {
        self.node.store.expect_kill(id.as_str());
        kill(&self.node.engine, id.as_str()).await
    }

    /// The time of the container's SIGKILL, shared by its concurrent stop calls: the earliest `at` so far.
    fn deadline(&self, id: &ContainerId, at: Instant) -> Arc<watch::Sender<Instant>> {
        let mut deadlines = self.deadlines.lock();
        if let Some(deadline) = deadlines.get(id).and_then(std::sync::Weak::upgrade) {
            deadline.send_if_modified(|kill_at| {
                let sooner = at < *kill_at;
                *kill_at = at.min(*kill_at);
                sooner
            });
            return deadline;
        }
        deadlines.retain(|_, deadline| deadline.strong_count() > 0);
        let deadline = Arc::new(watch::Sender::new(at));
        deadlines.insert(id.clone(), Arc::downgrade(&deadline));
        deadline
    }
}

/// Sends SIGKILL. [`await_end`] waits for the effect.
pub async fn kill(engine: &Engine, id: &str) -> Result<(), Failure> {
    ended_is_fine(engine.kill_container(id, "SIGKILL").await)
}

/// Waits until the store no longer shows the container as running, as `runs` judges it.
///
/// # Errors
/// An inspect fails, or the store still shows the container as running after both timeouts.
pub async fn await_end(
    store: &Store,
    id: &str,
    runs: impl Fn(&Snapshot) -> bool,
) -> Result<(), Failure> {
    let ended = |now: &Snapshot| (!runs(now)).then_some(());
    if store.wait(EVENT_TIMEOUT, ended).await.is_some() {
        return Ok(());
    }
    warn!(
        container = id,
        "no exit event from Docker after a stop or kill of a container; inspecting the container"
    );
    let until = Instant::now() + KILL_TIMEOUT;
    while Instant::now() < until {
        store.refresh_container(id).await?;
        if !runs(&store.snapshot()) {
            return Ok(());
        }
        sleep(POLL_EVERY).await;
    }
    let text = format!("container {id} did not end within {}s of SIGKILL", KILL_TIMEOUT.as_secs());
    Err(Failure::new(Kind::DeadlineExceeded, text))
}

/// Treats the errors for a container that does not exist or run as success.
pub(super) fn ended_is_fine(answer: Result<(), EngineError>) -> Result<(), Failure> {
    match answer {
        Err(EngineError::NotFound { .. } | EngineError::Conflict { .. }) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The longest grace period. This limit prevents an overflow in time calculations.
const LONGEST_GRACE: Duration = Duration::from_secs(366 * 24 * 3600);
/// How long Docker's exit event may take after a stop or kill, before dockbridge inspects the container.
const EVENT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long dockbridge inspects a container whose exit event is late, before the call fails.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// How often dockbridge inspects a container that should have ended.
const POLL_EVERY: Duration = Duration::from_millis(200);

//! The store's interface for other modules: snapshots, available at once, and requests to the writer.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time,
};

use super::{
    command::Command,
    engine_call::EngineCall,
    inspect_queue::Target,
    inspector::inspect_timeout,
    metrics::StoreMetrics,
    oom::{KillEvent, OomDetector},
    settings::SYNC_TIMEOUT,
    snapshot::{Snapshot, never_synced},
};
use crate::{
    checkpoint::record::SandboxCheckpoint,
    error::{Failure, Kind},
    host::clock,
    model::{
        engine::EngineHealth,
        id::{ImageId, SandboxId},
        record::{ContainerRecord, ImageRecord},
        reference::{ImageReference, names_id},
        time::Nanos,
    },
};

/// A handle of the store. All clones read the same snapshot. The writer ends with the last clone.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) published: watch::Receiver<Arc<Snapshot>>,
    pub metrics: StoreMetrics,
    pub(super) oom: OomDetector,
}

impl Store {
    /// Records that dockbridge is about to kill a container, so that an end by this kill does not count as an OOM kill.
    pub fn expect_kill(&self, id: &str) {
        self.oom.record(id, KillEvent::OwnKill, Nanos(clock::nanos()));
    }

    /// Whether the writer answers within `timeout`, for the health check.
    pub async fn answers(&self, timeout: Duration) -> bool {
        let answer = self.request(|reply| Command::Ping { reply });
        matches!(time::timeout(timeout, answer).await, Ok(Ok(())))
    }

    /// The current snapshot, without waiting.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.published.borrow())
    }

    /// Waits for [`Snapshot::is_synced`], and returns the current snapshot. If the engine has disconnected since, the
    /// snapshot has the last known state. Fails with `Unavailable` after `timeout`.
    pub async fn synced(&self, timeout: Duration) -> Result<Arc<Snapshot>, Failure> {
        self.once(timeout, Snapshot::is_synced).await
    }

    /// Waits until the engine has answered `info` and dockbridge may use the engine, which is before the first
    /// list. Returns the current snapshot. Fails with `Unavailable` after `timeout`.
    pub async fn described(&self, timeout: Duration) -> Result<Arc<Snapshot>, Failure> {
        self.once(timeout, |now| now.engine.is_some()).await
    }

    /// Waits without a timeout for [`Snapshot::is_complete`]. Code that cleans up after pods, containers or images that
    /// the store lacks must wait for this. Returns `None` if the store has ended.
    pub async fn complete(&self) -> Option<Arc<Snapshot>> {
        self.when(|now| now.is_complete().then(|| Arc::clone(now))).await
    }

    /// Waits until the pod or container was inspected, if it exists. Returns the current snapshot.
    ///
    /// # Errors
    /// Fails if the first list is late, or if the inspect fails or is late. After a failed or late inspect,
    /// [`Self::snapshot`] has the state of the engine's list.
    pub async fn inspected(&self, id: &str) -> Result<Arc<Snapshot>, Failure> {
        let now = self.synced(SYNC_TIMEOUT).await?;
        let Some(id) = now.listed_only(id).map(str::to_owned) else { return Ok(now) };
        let inspected =
            self.wait(INSPECT_TIMEOUT, |now| now.listed_only(&id).is_none().then_some(()));
        let late = || inspect_timeout(&id, INSPECT_TIMEOUT);
        tokio::select! {
            inspected = inspected => inspected.map(|()| self.snapshot()).ok_or_else(late),
            // This queues an inspect before those for which no caller waits. If an inspect already runs and succeeds,
            // `inspected` ends the wait first.
            Err(error) = self.refresh_container(&id) => Err(error),
        }
    }

    /// Returns a running container. If `now` does not show the container as running yet, asks the engine.
    ///
    /// # Errors
    /// Fails if there is no such container, if it does not run, or if its inspect fails.
    pub async fn running(&self, now: &Snapshot, id: &str) -> Result<Arc<ContainerRecord>, Failure> {
        let missing = || Failure::missing(format_args!("container {id}"));
        let mut container = now.container(id).ok_or_else(missing)?.clone();
        if !container.process.is_running() {
            self.refresh_container(container.id.as_str()).await?;
            container = self.snapshot().container(id).ok_or_else(missing)?.clone();
        }
        if container.process.is_running() {
            return Ok(container);
        }
        Err(Failure::unmet(format!("container {} is not running", container.id)))
    }

    /// Waits until the engine has listed its containers and its images, and returns the current snapshot.
    /// Fails with `Unavailable` after [`SYNC_TIMEOUT`].
    pub async fn images(&self) -> Result<Arc<Snapshot>, Failure> {
        self.once(SYNC_TIMEOUT, |now| now.is_synced() && now.has_images()).await
    }

    /// Returns the inspected image with this name. If the store has not inspected the image and the name is valid,
    /// waits for one inspect. `None` if the engine has no such image, or cannot read the image: a pull by the client
    /// then repairs the image.
    ///
    /// # Errors
    /// Fails if the engine's first lists are late, or if the inspect fails, unless the engine cannot read the image.
    pub async fn inspected_image(&self, name: &str) -> Result<Option<Arc<ImageRecord>>, Failure> {
        let now = self.images().await?;
        let listed = now.image(name);
        if let Some(image) = listed.filter(|image| image.inspected) {
            return Ok(Some(Arc::clone(image)));
        }
        // The engine would refuse this name again each time that the store retries the inspect.
        if listed.is_none() && !names_id(name) && ImageReference::parse(name).is_err() {
            return Ok(None);
        }
        match self.refresh_image(listed.map_or(name, |image| image.id.as_str())).await {
            Err(error) if error.kind() != Kind::Unknown => Err(error),
            _ => Ok(self.snapshot().image(name).filter(|image| image.inspected).map(Arc::clone)),
        }
    }

    /// Inspects this container. On success, snapshots show the result, for example that the container is gone.
    ///
    /// # Errors
    /// Fails if the inspect fails or gets no answer in time. The store then retries the inspect.
    pub async fn refresh_container(&self, id: &str) -> Result<(), Failure> {
        self.refresh(Target::Container(id.to_owned()), None).await
    }

    /// As [`Self::refresh_container`], for a container that the engine has created or started in `call`. If an inspect
    /// that the event of `call` caused still runs, waits for that one, unless another inspect must follow.
    pub async fn refresh_after(&self, call: EngineCall, id: &str) -> Result<(), Failure> {
        self.refresh(Target::Container(id.to_owned()), Some(call)).await
    }

    /// As [`Self::refresh_container`], for an image, by id or reference.
    pub async fn refresh_image(&self, name: &str) -> Result<(), Failure> {
        self.refresh(Target::Image(name.to_owned()), None).await
    }

    /// Stops showing an image that Docker has but does not list, because the image has no name and other images
    /// are based on it. On return, snapshots lack the image.
    pub async fn image_unlisted(&self, id: &ImageId) {
        let unlisted = self.request(|reply| Command::ImageUnlisted { id: id.clone(), reply });
        unlisted.await.unwrap_or_default();
    }

    /// Puts the content of a pod's checkpoint file into the store. On return, snapshots show the effect.
    pub async fn put_checkpoint(&self, checkpoint: SandboxCheckpoint) {
        let id = checkpoint.id.clone();
        self.set_checkpoint(id, Some(Box::new(checkpoint))).await;
    }

    /// Removes the content of a pod's checkpoint file from the store. On return, snapshots show the effect.
    pub async fn forget_checkpoint(&self, id: &SandboxId) {
        self.set_checkpoint(id.clone(), None).await;
    }

    async fn set_checkpoint(&self, id: SandboxId, checkpoint: Option<Box<SandboxCheckpoint>>) {
        let set = self.request(|reply| Command::SetCheckpoint { id, checkpoint, reply });
        set.await.unwrap_or_default();
    }

    async fn once(
        &self,
        timeout: Duration,
        is_so: fn(&Snapshot) -> bool,
    ) -> Result<Arc<Snapshot>, Failure> {
        let found = self.wait(timeout, |now| is_so(now).then_some(())).await;
        found.ok_or_else(|| never_synced(&self.reason()))?;
        Ok(self.snapshot())
    }

    /// Waits until `find` returns a value for a snapshot. `None` after `timeout`, or if the store has ended.
    /// `find` must not block.
    pub async fn wait<T>(
        &self,
        timeout: Duration,
        mut find: impl FnMut(&Snapshot) -> Option<T>,
    ) -> Option<T> {
        let found = self.when(|now| find(now));
        time::timeout(timeout, found).await.ok().flatten()
    }

    /// As [`Self::wait`], but without a timeout. Returns `None` if the store has ended.
    pub async fn when<T>(&self, mut find: impl FnMut(&Arc<Snapshot>) -> Option<T>) -> Option<T> {
        let mut published = self.published.clone();
        loop {
            // Marks only `now` as seen, so `changed` also reports a snapshot that arrives during `find`.
            let now = Arc::clone(&published.borrow_and_update());
            if let Some(found) = find(&now) {
                return Some(found);
            }
            published.changed().await.ok()?;
        }
    }

    /// Resolves when the writer has ended. While a handle exists, only a bug ends the writer.
    pub async fn ended(&self) {
        let mut published = self.published.clone();
        while published.changed().await.is_ok() {}
    }

    async fn refresh(&self, target: Target, answered: Option<EngineCall>) -> Result<(), Failure> {
        self.request(|reply| Command::Refresh { target, answered, reply }).await?
    }

    async fn request<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())
    }

    /// The reason why the store does not have Docker's lists yet, for error messages.
    fn reason(&self) -> String {
        match &self.snapshot().health {
            EngineHealth::Unreachable { reason } => reason.clone(),
            EngineHealth::Starting | EngineHealth::Reachable => {
                "dockbridge is still reading containers and images".to_owned()
            }
        }
    }
}

fn closed() -> Failure {
    Failure::new(Kind::Unavailable, "dockbridge is shutting down")
}

/// How long a caller waits for the first inspect of a container or pod.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(10);

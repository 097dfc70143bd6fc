//! The store as other modules have it: snapshots at once, and the few requests to the writer.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time,
};

use super::{
    command::Command, engine_call::EngineCall, error::StoreError, inspect_queue::Target,
    metrics::StoreMetrics, oom::OomDetector, settings::SYNC_TIMEOUT, snapshot::Snapshot,
};
use crate::{
    checkpoint::record::SandboxCheckpoint,
    error::Kind,
    host::clock,
    model::{engine::EngineHealth, id::SandboxId, record::ImageRecord, time::Nanos},
};

/// A handle on the store. Clones read the same snapshot; the writer ends with the last of them.
#[derive(Clone, Debug)]
pub struct Store {
    current: Arc<ArcSwap<Snapshot>>,
    commands: mpsc::Sender<Command>,
    published: watch::Receiver<()>,
    metrics: StoreMetrics,
    oom: OomDetector,
}

impl Store {
    pub(super) fn new(
        current: Arc<ArcSwap<Snapshot>>,
        commands: mpsc::Sender<Command>,
        published: watch::Receiver<()>,
        metrics: StoreMetrics,
        oom: OomDetector,
    ) -> Self {
        Self { current, commands, published, metrics, oom }
    }

    /// Its metrics.
    pub const fn metrics(&self) -> &StoreMetrics {
        &self.metrics
    }

    /// To be called before the engine is asked to kill a container: its end is then no OOM kill.
    pub fn expect_kill(&self, id: &str) {
        self.oom.record_own_kill(id, Nanos(clock::nanos()));
    }

    /// Whether the writer answers within `timeout`: a health check.
    pub async fn answers(&self, timeout: Duration) -> bool {
        let answer = self.request(|reply| Command::Ping { reply });
        matches!(time::timeout(timeout, answer).await, Ok(Ok(())))
    }

    /// The current snapshot. Never waits.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// The current snapshot, once the engine has listed its containers: none is missing then, though
    /// some may be known from the list only. While the engine is away afterwards this is the last
    /// known state.
    ///
    /// # Errors
    /// [`StoreError::NeverSynced`] when that takes longer than `timeout`.
    pub async fn synced(&self, timeout: Duration) -> Result<Arc<Snapshot>, StoreError> {
        self.once(timeout, Snapshot::is_synced).await
    }

    /// The current snapshot, once the engine has described itself and may be changed, which comes
    /// before it is listed.
    ///
    /// # Errors
    /// [`StoreError::NeverSynced`] when that takes longer than `timeout`.
    pub async fn described(&self, timeout: Duration) -> Result<Arc<Snapshot>, StoreError> {
        self.once(timeout, |now| now.engine.is_some()).await
    }

    /// The current snapshot, once everything in the first list has been inspected, however long that
    /// takes: whoever deletes or resets something waits for this. None when the store has ended.
    pub async fn complete(&self) -> Option<Arc<Snapshot>> {
        self.when(|now| now.is_complete().then(|| Arc::clone(now))).await
    }

    /// The current snapshot, once the pod or container of this id has been inspected, if it exists.
    ///
    /// # Errors
    /// The engine does not answer; then [`Self::snapshot`] has it as the engine's list does.
    pub async fn inspected(&self, id: &str) -> Result<Arc<Snapshot>, StoreError> {
        let now = self.synced(SYNC_TIMEOUT).await?;
        let Some(id) = now.listed_only(id).map(str::to_owned) else { return Ok(now) };
        let inspected =
            self.wait(INSPECT_TIMEOUT, |now| now.listed_only(&id).is_none().then_some(()));
        tokio::select! {
            inspected = inspected => match inspected {
                Some(()) => Ok(self.snapshot()),
                None => Err(StoreError::InspectTimeout { name: id.clone(), waited: INSPECT_TIMEOUT }),
            },
            // Not served by an inspect that runs, but before others that are queued.
            Err(error) = self.refresh_container(&id) => Err(error),
        }
    }

    /// The current snapshot, once the engine has listed its images, too.
    ///
    /// # Errors
    /// [`StoreError::NeverSynced`] when that takes long.
    pub async fn images(&self) -> Result<Arc<Snapshot>, StoreError> {
        self.once(SYNC_TIMEOUT, |now| now.is_synced() && now.has_images()).await
    }

    /// The image of this name, inspected. A miss asks the engine once, since an image that came a
    /// moment ago may not be here yet. None when the engine says that it has no such image, and when
    /// it says that it cannot read it: pulled again it can be, and only what is not there is pulled.
    ///
    /// # Errors
    /// The engine has not listed its images yet, or does not answer for this one.
    pub async fn inspected_image(
        &self,
        name: &str,
    ) -> Result<Option<Arc<ImageRecord>>, StoreError> {
        let now = self.images().await?;
        let listed = now.image(name);
        if let Some(image) = listed.filter(|image| image.inspected) {
            return Ok(Some(Arc::clone(image)));
        }
        match self.refresh_image(listed.map_or(name, |image| image.id.as_str())).await {
            Err(error) if error.kind() != Kind::Unknown => Err(error),
            _ => Ok(self.snapshot().image(name).filter(|image| image.inspected).map(Arc::clone)),
        }
    }

    /// Inspects this container; on return the result is visible. That the container is gone is a
    /// result, too.
    ///
    /// # Errors
    /// The engine does not answer; the last known record stays, and the store tries again by itself.
    pub async fn refresh_container(&self, id: &str) -> Result<(), StoreError> {
        self.refresh(Target::Container(id.to_owned()), None).await
    }

    /// The same for a container that the engine has created or started in this call. The inspect that its
    /// event caused may serve.
    ///
    /// # Errors
    /// As [`Self::refresh_container`].
    pub async fn refresh_after(&self, call: EngineCall, id: &str) -> Result<(), StoreError> {
        self.refresh(Target::Container(id.to_owned()), Some(call)).await
    }

    /// The same for an image, by id or reference.
    ///
    /// # Errors
    /// As [`Self::refresh_container`].
    pub async fn refresh_image(&self, name: &str) -> Result<(), StoreError> {
        self.refresh(Target::Image(name.to_owned()), None).await
    }

    /// Joins a stored checkpoint to its sandbox; visible on return.
    pub async fn put_checkpoint(&self, checkpoint: SandboxCheckpoint) {
        let checkpoint = Box::new(checkpoint);
        self.request(|reply| Command::PutCheckpoint { checkpoint, reply })
            .await
            .unwrap_or_default();
    }

    /// Forgets a removed checkpoint; visible on return.
    pub async fn forget_checkpoint(&self, id: &SandboxId) {
        let id = id.clone();
        self.request(|reply| Command::ForgetCheckpoint { id, reply }).await.unwrap_or_default();
    }

    async fn once(
        &self,
        timeout: Duration,
        is_so: fn(&Snapshot) -> bool,
    ) -> Result<Arc<Snapshot>, StoreError> {
        let found = self.wait(timeout, |now| is_so(now).then_some(())).await;
        found.ok_or_else(|| StoreError::NeverSynced { reason: self.reason() })?;
        Ok(self.snapshot())
    }

    /// Waits until `find` returns something for a snapshot, the current one or a later one; `None`
    /// when that takes longer than `timeout`. `find` runs once per snapshot, so keep it short.
    pub async fn wait<T>(
        &self,
        timeout: Duration,
        mut find: impl FnMut(&Snapshot) -> Option<T>,
    ) -> Option<T> {
        let found = self.when(|now| find(now));
        time::timeout(timeout, found).await.ok().flatten()
    }

    /// As [`Self::wait`], however long it takes; `None` when the store has ended.
    pub async fn when<T>(&self, mut find: impl FnMut(&Arc<Snapshot>) -> Option<T>) -> Option<T> {
        let mut published = self.published.clone();
        loop {
            // Marked as seen before the search: a change during it is not lost.
            published.borrow_and_update();
            if let Some(found) = find(&self.snapshot()) {
                return Some(found);
            }
            published.changed().await.ok()?;
        }
    }

    /// Resolves when the writer has ended, which only a bug can make it do.
    pub async fn ended(&self) {
        let mut published = self.published.clone();
        while published.changed().await.is_ok() {}
    }

    async fn refresh(
        &self,
        target: Target,
        answered: Option<EngineCall>,
    ) -> Result<(), StoreError> {
        self.request(|reply| Command::Refresh { target, answered, reply }).await?
    }

    async fn request<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)
    }

    /// Why callers have to wait.
    fn reason(&self) -> String {
        match &self.snapshot().health {
            EngineHealth::Unreachable { reason } => reason.clone(),
            EngineHealth::Starting | EngineHealth::Reachable => {
                "reading its containers and images".to_owned()
            }
        }
    }
}

/// How long a caller waits for the first inspect of a container.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(10);

//! The reader's side: snapshots at once, and the few questions the writer must answer.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time,
};

use super::{
    command::Command, error::StoreError, look::Target, metrics::StoreMetrics,
    settings::SYNC_PATIENCE, snapshot::Snapshot,
};
use crate::{
    checkpoint::record::SandboxCheckpoint,
    error::Kind,
    model::{engine::EngineHealth, id::SandboxId, record::ImageRecord},
};

/// A handle on the store. Clones read the same snapshot; the writer ends with the last of them.
#[derive(Clone, Debug)]
pub struct Store {
    current: Arc<ArcSwap<Snapshot>>,
    commands: mpsc::Sender<Command>,
    published: watch::Receiver<()>,
    metrics: StoreMetrics,
}

impl Store {
    pub(super) fn new(
        current: Arc<ArcSwap<Snapshot>>,
        commands: mpsc::Sender<Command>,
        published: watch::Receiver<()>,
        metrics: StoreMetrics,
    ) -> Self {
        Self { current, commands, published, metrics }
    }

    /// What is counted of it.
    pub const fn metrics(&self) -> &StoreMetrics {
        &self.metrics
    }

    /// Whether the task that knows what is true still takes orders, within `patience`.
    pub async fn answers(&self, patience: Duration) -> bool {
        let asked = self.ask(|reply| Command::Answer { reply });
        matches!(time::timeout(patience, asked).await, Ok(Ok(())))
    }

    /// What is known now. Never waits.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// What is known now, once the engine has listed its containers: nothing is missing then, though
    /// of some no more may be known than the list tells. While the engine is away afterwards this is
    /// the last known truth.
    ///
    /// # Errors
    /// [`StoreError::NeverSynced`] when that takes longer than `patience`.
    pub async fn synced(&self, patience: Duration) -> Result<Arc<Snapshot>, StoreError> {
        let synced = |snapshot: &Snapshot| snapshot.is_synced().then_some(());
        match self.wait(patience, synced).await {
            Some(()) => Ok(self.snapshot()),
            None => Err(StoreError::NeverSynced { reason: self.obstacle() }),
        }
    }

    /// What is known now, once the engine has described itself and may be changed: that comes
    /// before it is listed.
    ///
    /// # Errors
    /// [`StoreError::NeverSynced`] when that takes longer than `patience`.
    pub async fn described(&self, patience: Duration) -> Result<Arc<Snapshot>, StoreError> {
        let described = |snapshot: &Snapshot| snapshot.engine.is_some().then_some(());
        match self.wait(patience, described).await {
            Some(()) => Ok(self.snapshot()),
            None => Err(StoreError::NeverSynced { reason: self.obstacle() }),
        }
    }

    /// What is known now, once everything that was listed at first has been inspected, however long
    /// that takes: who deletes, forgets or sets back begins here. None when the store has ended.
    pub async fn complete(&self) -> Option<Arc<Snapshot>> {
        self.when(|now| now.is_complete().then(|| Arc::clone(now))).await
    }

    /// What is known now, once the pod or container of this id has been inspected, if it exists.
    ///
    /// # Errors
    /// The engine does not answer for it; then [`Self::snapshot`] has it as the engine's list does.
    pub async fn inspected(&self, id: &str) -> Result<Arc<Snapshot>, StoreError> {
        let now = self.synced(SYNC_PATIENCE).await?;
        let Some(id) = now.listed_only(id).map(str::to_owned) else { return Ok(now) };
        let seen = self.wait(INSPECT_PATIENCE, |now| now.listed_only(&id).is_none().then_some(()));
        tokio::select! {
            seen = seen => match seen {
                Some(()) => Ok(self.snapshot()),
                None => Err(StoreError::Silent { name: id.clone(), waited: INSPECT_PATIENCE }),
            },
            // Not served by a look under way, but before others that wait.
            Err(error) = self.refresh_container(&id) => Err(error),
        }
    }

    /// What is known now, once the engine has listed its images, too.
    ///
    /// # Errors
    /// [`StoreError::NeverSynced`] when that takes long.
    pub async fn images(&self) -> Result<Arc<Snapshot>, StoreError> {
        let listed = |now: &Snapshot| (now.is_synced() && now.has_images()).then_some(());
        match self.wait(SYNC_PATIENCE, listed).await {
            Some(()) => Ok(self.snapshot()),
            None => Err(StoreError::NeverSynced { reason: self.obstacle() }),
        }
    }

    /// The image of this name, inspected; none where it is not there, and none where the engine
    /// answers that it cannot read it: pulled again it can be, and only what is not there is pulled.
    ///
    /// # Errors
    /// The engine has not listed its images yet, or does not answer for this one.
    pub async fn inspected_image(
        &self,
        name: &str,
    ) -> Result<Option<Arc<ImageRecord>>, StoreError> {
        let now = self.images().await?;
        let Some(listed) = now.image(name) else { return Ok(None) };
        if listed.inspected {
            return Ok(Some(Arc::clone(listed)));
        }
        match self.refresh_image(listed.id.as_str()).await {
            Err(error) if error.kind() != Kind::Unknown => Err(error),
            _ => Ok(self.snapshot().image(name).filter(|image| image.inspected).map(Arc::clone)),
        }
    }

    /// Returns when a look at this container that began after the call is visible. That the
    /// container is gone is a result too.
    ///
    /// # Errors
    /// The engine does not answer for it; the last known record stays, and the store tries again
    /// by itself.
    pub async fn refresh_container(&self, id: &str) -> Result<(), StoreError> {
        self.refresh(Target::Container(id.to_owned())).await
    }

    /// The same for an image, by id or reference.
    ///
    /// # Errors
    /// As [`Self::refresh_container`].
    pub async fn refresh_image(&self, name: &str) -> Result<(), StoreError> {
        self.refresh(Target::Image(name.to_owned())).await
    }

    /// Joins a stored checkpoint to its sandbox; visible on return.
    pub async fn put_checkpoint(&self, checkpoint: SandboxCheckpoint) {
        let checkpoint = Box::new(checkpoint);
        self.ask(|reply| Command::Put { checkpoint, reply }).await.unwrap_or_default();
    }

    /// Forgets a removed checkpoint; visible on return.
    pub async fn forget_checkpoint(&self, id: &SandboxId) {
        let id = id.clone();
        self.ask(|reply| Command::Forget { id, reply }).await.unwrap_or_default();
    }

    /// Waits until `look` finds what it looks for in a snapshot, this one or a later one; `None`
    /// when that takes longer than `patience`. `look` runs once per change, so keep it short.
    pub async fn wait<T>(
        &self,
        patience: Duration,
        mut look: impl FnMut(&Snapshot) -> Option<T>,
    ) -> Option<T> {
        let search = self.when(|now| look(now));
        time::timeout(patience, search).await.ok().flatten()
    }

    /// As [`Self::wait`], however long it takes; `None` when the store has ended.
    pub async fn when<T>(&self, mut look: impl FnMut(&Arc<Snapshot>) -> Option<T>) -> Option<T> {
        let mut published = self.published.clone();
        loop {
            // Marked as seen before the look: a change during the look is not lost.
            published.borrow_and_update();
            if let Some(found) = look(&self.snapshot()) {
                return Some(found);
            }
            published.changed().await.ok()?;
        }
    }

    /// Resolves when the store's task has ended, which only a bug can make it do.
    pub async fn ended(&self) {
        let mut published = self.published.clone();
        while published.changed().await.is_ok() {}
    }

    async fn refresh(&self, target: Target) -> Result<(), StoreError> {
        self.ask(|reply| Command::Refresh { target, reply }).await?
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)
    }

    /// Why readers have to wait.
    fn obstacle(&self) -> String {
        match &self.snapshot().health {
            EngineHealth::Unreachable { reason } => reason.clone(),
            EngineHealth::Starting | EngineHealth::Reachable => {
                "it is being asked for everything it has".to_owned()
            }
        }
    }
}

/// How long one inspect may take before what the list says has to do.
const INSPECT_PATIENCE: Duration = Duration::from_secs(10);

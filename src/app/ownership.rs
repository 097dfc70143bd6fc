//! Locks for the state directory and for engines. The kernel releases the locks of a killed dockbridge.

use std::{
    collections::HashMap,
    future::pending,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use tokio::{
    sync::{Mutex, mpsc},
    time::{Duration, Instant, sleep},
};
use tracing::debug;

use super::error::AppError;
use crate::{
    engine::lock::EngineLocks,
    host::{
        file,
        lock::{Lock, LockError},
    },
    model::engine::EngineInfo,
};

/// Locks the state directory. Dropping the returned lock releases it.
pub(super) async fn lock_state_dir(state_dir: &Path, listen: &Path) -> Result<Lock, AppError> {
    let taken = |source| AppError::StateDir { state_dir: state_dir.to_owned(), source };
    file::ensure_directory(state_dir, STATE_MODE).map_err(|e| taken(LockError::from(e)))?;
    let path = state_dir.join("lock");
    retry(|| Lock::take(&path, listen)).await.map_err(taken)
}

/// The locks of the engines that the store connects to. Dropping this value releases the locks.
pub(super) struct EngineOwnership {
    owner: Arc<Locks>,
    refused: mpsc::Receiver<AppError>,
}

impl EngineOwnership {
    pub(super) fn new(listen: PathBuf, docker: PathBuf, locks: EngineLocks) -> Self {
        let (refuse, refused) = mpsc::channel(1);
        let owner = Locks { locks, listen, docker, held: Mutex::default(), refuse };
        Self { owner: Arc::new(owner), refused }
    }

    /// A handle with which the store locks engines. The handle does not keep the locks if `self` is dropped.
    pub(super) fn locker(&self) -> EngineLocker {
        EngineLocker(Arc::downgrade(&self.owner))
    }

    /// Resolves with the reason when an engine cannot be locked.
    pub(super) async fn failed(&mut self) -> AppError {
        match self.refused.recv().await {
            Some(error) => error,
            None => pending().await,
        }
    }
}

/// Locks an engine before the store uses the engine.
#[derive(Clone, Debug)]
pub(super) struct EngineLocker(Weak<Locks>);

impl EngineLocker {
    /// Returns when the engine is locked, or at once if the engine has no id. If locking fails, never returns, so
    /// that the store does not use the engine before the process ends.
    pub(super) async fn lock(self, engine: EngineInfo) {
        let Some(owner) = self.0.upgrade() else { return pending().await };
        if let Err(error) = owner.take(&engine).await {
            // If the channel is full, it already contains an error, which ends the process.
            let _ = owner.refuse.try_send(error);
            drop(owner);
            pending::<()>().await;
        }
    }
}

struct Locks {
    locks: EngineLocks,
    listen: PathBuf,
    docker: PathBuf,
    /// The locks by path, held until dockbridge ends, because an engine may stop and start again.
    held: Mutex<HashMap<PathBuf, Lock>>,
    refuse: mpsc::Sender<AppError>,
}

impl Locks {
    async fn take(&self, engine: &EngineInfo) -> Result<(), AppError> {
        let Some(file) = self.locks.file(engine) else { return Ok(()) };
        let mut held = self.held.lock().await;
        if held.contains_key(&file) {
            return Ok(());
        }
        let lock = retry(|| self.locks.take(&file, &self.listen)).await;
        let lock = lock.map_err(|refused| self.error(engine, refused))?;
        debug!(lock = %file.display(), "no other dockbridge serves this engine");
        held.insert(file, lock);
        Ok(())
    }

    fn error(&self, engine: &EngineInfo, refused: LockError) -> AppError {
        let (id, docker) = (engine.daemon_id.clone(), self.docker.clone());
        match refused {
            LockError::Held { holder, .. } => AppError::EngineInUse { id, docker, holder },
            LockError::Host(source) => AppError::EngineLock { id, docker, source },
        }
    }
}

/// Tries for up to a second to take a lock. If dockbridge was killed while it started a plugin, the child
/// holds the lock until the child runs the plugin's program.
async fn retry(take: impl Fn() -> Result<Lock, LockError>) -> Result<Lock, LockError> {
    let until = Instant::now() + RETRY_FOR;
    loop {
        match take() {
            Err(LockError::Held { .. }) if Instant::now() < until => sleep(RETRY_PAUSE).await,
            outcome => return outcome,
        }
    }
}

const RETRY_FOR: Duration = Duration::from_secs(1);
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// The mode of a new state directory: only root and dockbridge's own user may access it.
const STATE_MODE: u32 = 0o700;

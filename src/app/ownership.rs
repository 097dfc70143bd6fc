//! Locks for what only one server may use: the state directory and each engine. The kernel releases the
//! locks of a killed dockbridge.

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
use tracing::{debug, warn};

use super::error::AppError;
use crate::{
    engine::lock::EngineLocks,
    host::{
        file,
        lock::{Lock, LockError},
    },
    model::engine::EngineInfo,
};

/// Locks the state directory, until the lock is dropped.
pub(super) async fn lock_state_dir(state_dir: &Path, listen: &Path) -> Result<Lock, AppError> {
    let taken = |source| AppError::StateDir { state_dir: state_dir.to_owned(), source };
    file::ensure_directory(state_dir, STATE_MODE).map_err(|e| taken(LockError::from(e)))?;
    let path = state_dir.join("lock");
    retry(|| Lock::take(&path, listen)).await.map_err(taken)
}

/// Locks the engines that the store connects to, until this is dropped.
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

    /// Locks engines for the store. The store may live longer than this, so it does not hold the locks
    /// itself.
    pub(super) fn locker(&self) -> EngineLocker {
        EngineLocker(Arc::downgrade(&self.owner))
    }

    /// Resolves when the lock of an engine cannot be taken, or was lost.
    pub(super) async fn failed(&mut self) -> AppError {
        loop {
            tokio::select! {
                error = self.refused.recv() => match error {
                    Some(error) => return error,
                    None => return pending().await,
                },
                () = sleep(CHECK_EVERY) => if let Err(error) = self.owner.check().await {
                    return error;
                },
            }
        }
    }
}

/// Locks an engine after it has answered with its id, before it is used.
#[derive(Clone, Debug)]
pub(super) struct EngineLocker(Weak<Locks>);

impl EngineLocker {
    /// Returns when the engine is locked. After a failure it never returns, because the process ends.
    pub(super) async fn lock(self, engine: EngineInfo) {
        let Some(owner) = self.0.upgrade() else { return pending().await };
        if let Err(error) = owner.take(&engine).await {
            // If the channel is full, it already has an error.
            let _ = owner.refuse.try_send(error);
            drop(owner);
            pending::<()>().await;
        }
    }
}

struct Held {
    engine: EngineInfo,
    lock: Lock,
}

struct Locks {
    locks: EngineLocks,
    listen: PathBuf,
    docker: PathBuf,
    /// The locks by file. They are held until the end, because an engine may come back after it was away.
    held: Mutex<HashMap<PathBuf, Held>>,
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
        held.insert(file, Held { engine: engine.clone(), lock });
        Ok(())
    }

    /// Takes locks again when their files were removed. If another server was faster, the engine belongs to it.
    async fn check(&self) -> Result<(), AppError> {
        let mut held = self.held.lock().await;
        for (file, Held { engine, lock }) in held.iter_mut() {
            if lock.is_at(file) {
                continue;
            }
            let again = retry(|| self.locks.take(file, &self.listen)).await;
            *lock = again.map_err(|refused| self.error(engine, refused))?;
            warn!(lock = %file.display(), "the lock file of this engine was removed; taken again");
        }
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

/// Retries a lock for a moment. If dockbridge was killed while it started a plugin, the child holds the
/// lock until it runs the plugin's program.
async fn retry(take: impl Fn() -> Result<Lock, LockError>) -> Result<Lock, LockError> {
    let until = Instant::now() + RETRY_FOR;
    loop {
        match take() {
            Err(LockError::Held { .. }) if Instant::now() < until => sleep(RETRY_PAUSE).await,
            outcome => return outcome,
        }
    }
}

/// How long a child of a killed previous process may hold a lock.
const RETRY_FOR: Duration = Duration::from_secs(1);
/// How often to check that the lock files still exist.
const CHECK_EVERY: Duration = Duration::from_secs(10);
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Only this user may access the state directory.
const STATE_MODE: u32 = 0o700;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::engine::ApiVersion,
        translate::observe::engine::observe,
        wire::docker::{Info, Version},
    };

    #[tokio::test]
    async fn a_lock_that_was_removed_is_taken_again_unless_another_server_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let locks = EngineLocks::at(dir.path().join("locks"));
        let info = Info { id: "e".to_owned(), ..Info::default() };
        let engine = observe(&Version::default(), &info, ApiVersion::OLDEST);
        let file = locks.file(&engine).unwrap();
        let (refuse, _refused) = mpsc::channel(1);
        let owner = Locks {
            locks: locks.clone(),
            listen: "/run/first.sock".into(),
            docker: "/run/docker.sock".into(),
            held: Mutex::default(),
            refuse,
        };
        owner.take(&engine).await.unwrap();
        owner.check().await.unwrap();
        std::fs::remove_file(&file).unwrap();
        owner.check().await.unwrap();
        assert!(matches!(Lock::take(&file, &owner.docker), Err(LockError::Held { .. })));
        std::fs::remove_dir_all(dir.path().join("locks")).unwrap();
        let second = locks.take(&file, "/run/second.sock".as_ref()).unwrap();
        let Err(AppError::EngineInUse { holder, .. }) = owner.check().await else {
            panic!("still ours")
        };
        assert_eq!(holder.socket.unwrap().to_str(), Some("/run/second.sock"));
        drop(second);
    }
}

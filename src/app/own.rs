//! What only one server can have: the state directory, and each engine it meets. A killed
//! dockbridge has neither any more.

use std::{
    collections::HashMap,
    future::pending,
    path::PathBuf,
    sync::{Arc, Weak},
};

use tokio::{
    sync::{Mutex, mpsc},
    time::{Duration, Instant, sleep},
};
use tracing::{debug, warn};

use super::AppError;
use crate::{
    config::settings::Settings,
    engine::lock::EngineLocks,
    host::{
        file,
        lock::{Lock, LockError},
    },
    model::engine::EngineInfo,
    store::hooks::StoreHooks,
};

/// Makes the state directory ours alone, for as long as the lock is kept.
pub(super) async fn own_state_dir(settings: &Settings) -> Result<Lock, AppError> {
    let state_dir = &settings.state_dir;
    let taken = |source| AppError::Taken { state_dir: state_dir.clone(), source };
    file::ensure_directory(state_dir, STATE_MODE).map_err(|e| taken(LockError::from(e)))?;
    let path = state_dir.join("lock");
    patiently(|| Lock::take(&path, &settings.listen)).await.map_err(taken)
}

/// The engines that are ours alone, for as long as this is kept.
pub(super) struct OwnEngines {
    owner: Arc<Owner>,
    refused: mpsc::Receiver<AppError>,
}

impl OwnEngines {
    pub(super) fn new(settings: &Settings, locks: EngineLocks) -> Self {
        let (refuse, refused) = mpsc::channel(1);
        let (listen, docker) = (settings.listen.clone(), settings.docker.clone());
        let owner = Owner { locks, listen, docker, held: Mutex::default(), refuse };
        Self { owner: Arc::new(owner), refused }
    }

    /// Has each engine made ours when it has described itself, before anything is done to it.
    pub(super) fn guard(&self, hooks: StoreHooks) -> StoreHooks {
        // Not kept by the store, which may outlive us: the locks go when this does.
        let owner = Arc::downgrade(&self.owner);
        hooks.on_engine(move |engine| admit(owner.clone(), engine))
    }

    /// Resolves when an engine cannot be made ours, or is no longer.
    pub(super) async fn refused(&mut self) -> AppError {
        loop {
            tokio::select! {
                refused = self.refused.recv() => match refused {
                    Some(error) => return error,
                    None => return pending().await,
                },
                () = sleep(LOOK_EVERY) => if let Err(error) = self.owner.keep().await {
                    return error;
                },
            }
        }
    }
}

/// Comes to an end when the engine is ours. It never is once we are about to end, which is what
/// a refusal leads to.
async fn admit(owner: Weak<Owner>, engine: EngineInfo) {
    let Some(owner) = owner.upgrade() else { return pending().await };
    if let Err(error) = owner.take(&engine).await {
        // A full channel has the same to tell.
        let _ = owner.refuse.try_send(error);
        drop(owner);
        pending::<()>().await;
    }
}

struct Held {
    engine: EngineInfo,
    lock: Lock,
}

struct Owner {
    locks: EngineLocks,
    listen: PathBuf,
    docker: PathBuf,
    /// By file, until the end: an engine that was away may come back.
    held: Mutex<HashMap<PathBuf, Held>>,
    refuse: mpsc::Sender<AppError>,
}

impl Owner {
    async fn take(&self, engine: &EngineInfo) -> Result<(), AppError> {
        let Some(file) = self.locks.file(engine) else { return Ok(()) };
        let mut held = self.held.lock().await;
        if held.contains_key(&file) {
            return Ok(());
        }
        let lock = patiently(|| self.locks.take(&file, &self.listen)).await;
        let lock = lock.map_err(|refused| self.refusal(engine, refused))?;
        debug!(lock = %file.display(), "no other dockbridge serves this engine");
        held.insert(file, Held { engine: engine.clone(), lock });
        Ok(())
    }

    /// Takes locks again whose files somebody has removed. Whoever came in between has the engine.
    async fn keep(&self) -> Result<(), AppError> {
        let mut held = self.held.lock().await;
        for (file, Held { engine, lock }) in held.iter_mut() {
            if lock.is_at(file) {
                continue;
            }
            let again = patiently(|| self.locks.take(file, &self.listen)).await;
            *lock = again.map_err(|refused| self.refusal(engine, refused))?;
            warn!(lock = %file.display(), "somebody removed the lock of this engine: taken again");
        }
        Ok(())
    }

    fn refusal(&self, engine: &EngineInfo, refused: LockError) -> AppError {
        let (id, docker) = (engine.daemon_id.clone(), self.docker.clone());
        match refused {
            LockError::Held { holder, .. } => AppError::Served { id, docker, holder },
            LockError::Host(source) => AppError::NoEngineLock { id, docker, source },
        }
    }
}

/// Waits a moment for the lock: a dockbridge that was killed while it started a plugin leaves a
/// child that holds it until it has become the plugin.
async fn patiently(take: impl Fn() -> Result<Lock, LockError>) -> Result<Lock, LockError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match take() {
            Err(LockError::Held { .. }) if Instant::now() < until => sleep(RETRY).await,
            outcome => return outcome,
        }
    }
}

/// How long a killed predecessor's child may keep a lock.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked whether locks are still where others look for them.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How often the lock is tried meanwhile.
const RETRY: Duration = Duration::from_millis(20);
/// Nobody else has business in the state directory.
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
    async fn a_lock_that_was_removed_is_taken_again_unless_somebody_else_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let locks = EngineLocks::at(dir.path().join("locks"));
        let info = Info { id: "e".to_owned(), ..Info::default() };
        let engine = observe(&Version::default(), &info, ApiVersion::OLDEST);
        let file = locks.file(&engine).unwrap();
        let (refuse, _refused) = mpsc::channel(1);
        let owner = Owner {
            locks: locks.clone(),
            listen: "/run/first.sock".into(),
            docker: "/run/docker.sock".into(),
            held: Mutex::default(),
            refuse,
        };
        owner.take(&engine).await.unwrap();
        owner.keep().await.unwrap();
        std::fs::remove_file(&file).unwrap();
        owner.keep().await.unwrap();
        assert!(matches!(Lock::take(&file, &owner.docker), Err(LockError::Held { .. })));
        std::fs::remove_dir_all(dir.path().join("locks")).unwrap();
        let second = locks.take(&file, "/run/second.sock".as_ref()).unwrap();
        let Err(AppError::Served { holder, .. }) = owner.keep().await else { panic!("kept") };
        assert_eq!(holder.socket.unwrap().to_str(), Some("/run/second.sock"));
        drop(second);
    }
}

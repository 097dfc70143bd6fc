//! Checks paths of this host that a request names. A path may be on a file system that never answers. The
//! caller then gets an answer within a deadline, and the hanging thread is abandoned.
//!
//! While a path hangs, it is not checked again. Otherwise each retry of kubelet would block one more
//! thread, until no threads are left for other pods.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

use crate::{
    error::{Failure, Kind},
    host::error::HostError,
};

/// A running check of one path after another. Clones refer to the same check.
#[derive(Clone, Debug)]
pub(in crate::container) struct HostCheck(Arc<Slot>);

#[derive(Debug)]
struct Slot {
    number: u64,
    _permit: SemaphorePermit<'static>,
}

impl HostCheck {
    /// None if too many checks hang.
    fn begin() -> Option<Self> {
        let permit = SLOTS.try_acquire().ok()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Some(Self(Arc::new(Slot { number, _permit: permit })))
    }

    /// Starts with the next path. Fails with kind `DeadlineExceeded` if another check hangs there.
    pub(in crate::container) fn at(&self, path: &Path) -> Result<(), Failure> {
        let mut running = running();
        let hangs = |(number, (at, since)): (&u64, &(PathBuf, Instant))| {
            *number != self.0.number && at == path && since.elapsed() >= HANGS_AFTER
        };
        if running.iter().any(hangs) {
            return Err(hung(path));
        }
        running.insert(self.0.number, (path.to_owned(), Instant::now()));
        Ok(())
    }

    /// The path that is being checked.
    fn path(&self) -> PathBuf {
        running().get(&self.0.number).map(|(path, _)| path.clone()).unwrap_or_default()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        running().remove(&self.number);
    }
}

/// Runs a check, which announces every path with [`HostCheck::at`]. The check continues after the caller
/// has stopped waiting. Fails like the check, or with `DeadlineExceeded` if a path does not answer.
pub(in crate::container) async fn within_deadline<T: Send + 'static, W>(
    begin: impl FnOnce(HostCheck) -> W,
) -> Result<T, Failure>
where
    W: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let Some(check) = HostCheck::begin() else { return Err(hung(Path::new("/"))) };
    let checking = tokio::spawn(begin(check.clone()));
    match tokio::time::timeout(TIMEOUT, checking).await {
        Ok(Ok(result)) => result,
        Ok(Err(panicked)) => Err(HostError::new("check", &check.path(), panicked).into()),
        Err(_) => Err(hung(&check.path())),
    }
}

fn hung(path: &Path) -> Failure {
    let text = format!("cannot check {}: {HANGS}", path.display());
    Failure::new(Kind::DeadlineExceeded, text)
}

fn running() -> MutexGuard<'static, BTreeMap<u64, (PathBuf, Instant)>> {
    RUNNING.lock()
}

/// The path of each check, and the time when it began.
static RUNNING: Mutex<BTreeMap<u64, (PathBuf, Instant)>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);
/// A part of the runtime's threads for blocking work.
static SLOTS: Semaphore = Semaphore::const_new(256);
/// The likely cause, for the operator.
const HANGS: &str = "a file system of this host does not answer (a dead network mount?)";
/// Longer than any working disk needs.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Shorter than [`TIMEOUT`], because a caller may retry as soon as it gets the error.
const HANGS_AFTER: Duration = Duration::from_secs(10);

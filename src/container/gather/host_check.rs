//! Checks paths of this host that a request names. A path may be on a file system that never answers. If a
//! path does not answer, the caller gets an error at a deadline, and dockbridge abandons the hanging thread.
//!
//! After a check has hung on a path for ten seconds, dockbridge checks this path again only when the check has ended:
//! otherwise each retry of kubelet would also hang, until too many checks run and checks of other pods fail.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

use crate::{
    error::{Failure, Kind},
    host::error::HostError,
};

/// A running check, which reads one path after another. Clones refer to the same check.
#[derive(Clone, Debug)]
pub(in crate::container) struct HostCheck(Arc<Slot>);

#[derive(Debug)]
struct Slot {
    number: u64,
    _permit: SemaphorePermit<'static>,
}

impl HostCheck {
    fn begin() -> Option<Self> {
        let permit = SLOTS.try_acquire().ok()?;
        let number = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Some(Self(Arc::new(Slot { number, _permit: permit })))
    }

    /// Records that the check reads `path` next. Fails with kind `DeadlineExceeded` if another check hangs on
    /// the same path.
    pub(in crate::container) fn at(&self, path: &Path) -> Result<(), Failure> {
        let mut running = RUNNING.lock();
        let hangs = |(number, (at, since)): (&u64, &(PathBuf, Instant))| {
            *number != self.0.number && at == path && since.elapsed() >= HANGS_AFTER
        };
        if running.iter().any(hangs) {
            return Err(hung(path));
        }
        running.insert(self.0.number, (path.to_owned(), Instant::now()));
        Ok(())
    }

    fn path(&self) -> PathBuf {
        RUNNING.lock().get(&self.0.number).map(|(path, _)| path.clone()).unwrap_or_default()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        RUNNING.lock().remove(&self.number);
    }
}

/// Runs a check, which must call [`HostCheck::at`] before it reads a path, and continues if the caller stops waiting.
/// Fails with the error of the check, or with `DeadlineExceeded` if the check takes too long or too many checks run.
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

/// For each check, the path that it is reading, and the time when it began to read that path.
static RUNNING: Mutex<BTreeMap<u64, (PathBuf, Instant)>> = Mutex::new(BTreeMap::new());
static NEXT_ID: AtomicU64 = AtomicU64::new(0);
/// Each check that hangs blocks one thread, so checks may use only some of the tokio runtime's blocking threads.
static SLOTS: Semaphore = Semaphore::const_new(256);
const HANGS: &str = "probably a file system of this host does not answer (a dead network mount?)";
const TIMEOUT: Duration = Duration::from_secs(20);
/// After this time, other checks treat a path as hanging. Shorter than [`TIMEOUT`], because a caller may
/// retry as soon as it gets the error.
const HANGS_AFTER: Duration = Duration::from_secs(10);

//! Looks at places of this host that others chose. Any may be on a file system that never answers:
//! who waits is answered within a bound, and what hangs is let alone, with the thread it holds.
//!
//! While a place hangs it is not looked at again: every try of a kubelet would keep a thread more,
//! until there are none for pods that have nothing to do with it.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{container::error::ContainerError, error::Kind};

/// A look under way, place by place. Clones are the same look.
#[derive(Clone, Debug)]
pub(in crate::container) struct Look(Arc<Seat>);

#[derive(Debug)]
struct Seat {
    number: u64,
    _permit: SemaphorePermit<'static>,
}

impl Look {
    /// None when there is no seat left.
    fn begin() -> Option<Self> {
        let permit = SEATS.try_acquire().ok()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Some(Self(Arc::new(Seat { number, _permit: permit })))
    }

    /// Goes on to a place.
    ///
    /// # Errors
    /// Another look hangs there.
    pub(in crate::container) fn at(&self, place: &Path) -> Result<(), ContainerError> {
        let mut under_way = under_way();
        let hangs = |(number, (at, since)): (&u64, &(PathBuf, Instant))| {
            *number != self.0.number && at == place && since.elapsed() >= HANGS_AFTER
        };
        if under_way.iter().any(hangs) {
            return Err(hung("look, as others do, at", place.to_owned()));
        }
        under_way.insert(self.0.number, (place.to_owned(), Instant::now()));
        Ok(())
    }

    /// Where it is.
    fn place(&self) -> PathBuf {
        under_way().get(&self.0.number).map(|(place, _)| place.clone()).unwrap_or_default()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        under_way().remove(&self.number);
    }
}

/// Does work that tells the look every place before it goes there. It goes on, however long the
/// caller waited.
///
/// # Errors
/// The work's, or a place that does not answer.
pub(in crate::container) async fn patiently<T: Send + 'static, W>(
    begin: impl FnOnce(Look) -> W,
) -> Result<T, ContainerError>
where
    W: Future<Output = Result<T, ContainerError>> + Send + 'static,
{
    let Some(look) = Look::begin() else { return Err(hung("look, as others do, at", "/".into())) };
    let looking = tokio::spawn(begin(look.clone()));
    match tokio::time::timeout(PATIENCE, looking).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(lost)) => Err(ContainerError::file("look at", look.place(), lost.into())),
        Err(_) => Err(hung("look at", look.place())),
    }
}

fn hung(action: &'static str, path: PathBuf) -> ContainerError {
    ContainerError::File {
        action,
        path,
        cause: Arc::new(io::Error::new(io::ErrorKind::TimedOut, HANGS)),
        kind: Kind::DeadlineExceeded,
    }
}

fn under_way() -> MutexGuard<'static, BTreeMap<u64, (PathBuf, Instant)>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where each look is, and since when.
static UNDER_WAY: Mutex<BTreeMap<u64, (PathBuf, Instant)>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Of the threads there are for what blocks; see where the runtime is built.
static SEATS: Semaphore = Semaphore::const_new(256);
/// What to look for on the host.
const HANGS: &str = "a file system of this host does not answer (a dead network mount?)";
/// Longer than any healthy disk takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Earlier than a caller is told, who may come again at once.
const HANGS_AFTER: Duration = Duration::from_secs(10);

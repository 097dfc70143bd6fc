//! Calls to log directories, of which any may hang, e.g. on a dead NFS server.
//!
//! A caller gets an answer within a deadline. While one call hangs, no other is made in
//! the same directory: each keeps a thread. When very many hang, no directory is accessed, since the
//! threads are not for logs alone.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    task,
    time::{Instant, timeout},
};

use super::{error::LogError, log_path::LogPath};

/// What the directories of logs were asked and have not answered yet. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Directories {
    asked: Arc<Mutex<HashMap<PathBuf, Instant>>>,
    time_limit: Duration,
    /// How many may be late.
    most: usize,
}

impl Default for Directories {
    fn default() -> Self {
        Self::patient(TIMEOUT, MOST_LATE)
    }
}

impl Directories {
    fn patient(time_limit: Duration, most: usize) -> Self {
        Self { asked: Arc::default(), time_limit, most }
    }

    /// Runs blocking `work` in a log's directory, or returns that the directory hangs. Work that was
    /// begun goes on.
    ///
    /// # Errors
    /// The work's, or no answer.
    pub(super) async fn ask(
        &self,
        at: LogPath,
        work: impl FnOnce(&LogPath) -> Result<(), LogError> + Send + 'static,
    ) -> Result<(), LogError> {
        let root = at.root().to_owned();
        let hung = || LogError::Hung { directory: at.root().to_owned() };
        if !self.may_ask(&root) {
            return Err(hung());
        }
        let (place, asked) = (at.clone(), self.clone());
        let asking = task::spawn_blocking(move || {
            let done = work(&place);
            asked.asked().remove(&root);
            done
        });
        let answer = timeout(self.time_limit, asking).await.map_err(|_late| hung())?;
        answer.unwrap_or(Err(LogError::Closed))
    }

    fn may_ask(&self, root: &Path) -> bool {
        let mut asked = self.asked();
        let is_late = |since: &&Instant| since.elapsed() >= self.time_limit;
        let is_full =
            asked.len() >= self.most && asked.values().filter(is_late).count() >= self.most;
        let since = asked.get(root).copied();
        let may = !is_full && since.as_ref().is_none_or(|since| !is_late(&since));
        if may && since.is_none() {
            asked.insert(root.to_owned(), Instant::now());
        }
        may
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<PathBuf, Instant>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads that hanging directories may keep, one each.
const MOST_LATE: usize = 512;
/// Far longer than a disk takes that lives, and far shorter than a kubelet waits.
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use super::*;
    use crate::{clock::forward, error::Kind};

    fn place(pod: &str) -> LogPath {
        let root = Path::new("/logs").join(pod);
        LogPath::of(&root.join("main/0.log"), Some(&root)).unwrap()
    }

    /// Every try of a kubelet would otherwise keep one more thread.
    #[tokio::test]
    async fn a_directory_that_hangs_is_asked_once() {
        let directories = Directories::patient(TIMEOUT, 512);
        let (release, held) = mpsc::channel::<()>();
        let began = Arc::new(AtomicUsize::new(0));
        let hang = {
            let began = Arc::clone(&began);
            move |_: &LogPath| {
                began.fetch_add(1, Ordering::SeqCst);
                let _ = held.recv();
                Ok(())
            }
        };
        let (answer, ()) = tokio::join!(directories.ask(place("a"), hang), async {
            while began.load(Ordering::SeqCst) == 0 {
                task::yield_now().await;
            }
            forward(TIMEOUT).await;
        });
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), Kind::DeadlineExceeded);
        assert!(error.to_string().contains("/logs/a"), "{error}");
        let count = Arc::clone(&began);
        let again = directories.ask(place("a"), move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        assert!(matches!(again.await, Err(LogError::Hung { .. })));
        assert_eq!(began.load(Ordering::SeqCst), 1);
        directories.ask(place("b"), |_| Ok(())).await.unwrap();
        drop(release);
        while !directories.asked().is_empty() {
            task::yield_now().await;
        }
        directories.ask(place("a"), |_| Ok(())).await.unwrap();
    }

    /// The threads are those of all other work.
    #[tokio::test]
    async fn so_many_may_hang_and_no_more() {
        let directories = Directories::patient(TIMEOUT, 3);
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        for pod in ["a", "b", "c"] {
            let held = Arc::clone(&held);
            let hang = move |_: &LogPath| {
                let _ = held.lock().map(|held| held.recv());
                Ok(())
            };
            let (answer, ()) = tokio::join!(directories.ask(place(pod), hang), forward(TIMEOUT));
            assert!(matches!(answer, Err(LogError::Hung { .. })), "{answer:?}");
        }
        let refused = directories.ask(place("d"), |_| panic!("was asked")).await;
        assert!(matches!(refused, Err(LogError::Hung { .. })), "{refused:?}");
        drop(release);
        while !directories.asked().is_empty() {
            task::yield_now().await;
        }
        directories.ask(place("d"), |_| Ok(())).await.unwrap();
    }
}

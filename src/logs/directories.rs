//! Questions to log directories, of which any may hang: a dead NFS answers nobody.
//!
//! Who asks is answered within a bound. While a question is late, the same directory is not asked
//! again: each question keeps a thread until it is answered.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    task,
    time::{Instant, timeout},
};

use super::{error::LogError, place::LogPath};

/// What the directories of logs were asked and have not answered yet. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Directories {
    asked: Arc<Mutex<HashMap<PathBuf, Instant>>>,
    patience: Duration,
}

impl Default for Directories {
    fn default() -> Self {
        Self::patient(PATIENCE)
    }
}

impl Directories {
    fn patient(patience: Duration) -> Self {
        Self { asked: Arc::default(), patience }
    }

    /// Does blocking `work` in a log's directory, or says that the directory hangs. Work that was
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
        let since = *self.asked().entry(root.clone()).or_insert_with(Instant::now);
        if since.elapsed() >= self.patience {
            return Err(hung());
        }
        let (place, asked) = (at.clone(), self.clone());
        let asking = task::spawn_blocking(move || {
            let done = work(&place);
            asked.asked().remove(&root);
            done
        });
        let answer = timeout(self.patience, asking).await.map_err(|_late| hung())?;
        answer.unwrap_or(Err(LogError::Closed))
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<PathBuf, Instant>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Far longer than a disk takes that lives, and far shorter than a kubelet waits.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
    };

    use super::*;
    use crate::error::Kind;

    fn place(pod: &str) -> LogPath {
        let root = Path::new("/logs").join(pod);
        LogPath::of(&root.join("main/0.log"), Some(&root)).unwrap()
    }

    /// Every try of a kubelet would otherwise keep one more thread.
    #[tokio::test]
    async fn a_directory_that_hangs_is_asked_once() {
        let directories = Directories::patient(Duration::from_millis(20));
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
        let error = directories.ask(place("a"), hang).await.unwrap_err();
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
}

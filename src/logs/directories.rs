//! Runs work in log directories, which may hang, for example on a dead NFS server.
//!
//! A caller gets an answer or an error within a deadline. While work in a directory hangs, no further work in
//! that directory is started, because it would block another thread.

use std::time::Duration;

use tokio::time::timeout;

use super::{error::LogError, log_path::LogPath};
use crate::concurrency::{blocking::blocking, keyed_locks::KeyedLocks};

/// The log directories in which work is in progress, shared by all clones of this value.
#[derive(Clone, Debug, Default)]
pub(super) struct Directories(KeyedLocks);

impl Directories {
    /// Runs blocking `work` in a log's directory. If `work` has started, it continues after the deadline.
    ///
    /// # Errors
    /// The error of `work`, or [`LogError::Hung`] if the directory does not answer in time.
    pub(super) async fn run(
        &self,
        at: LogPath,
        work: impl FnOnce(&LogPath) -> Result<(), LogError> + Send + 'static,
    ) -> Result<(), LogError> {
        let directory = at.root().to_owned();
        let running = async {
            let lock = self.0.write(&directory.to_string_lossy()).await;
            blocking(move || {
                let done = work(&at);
                drop(lock);
                done
            })
            .await
        };
        timeout(TIMEOUT, running).await.unwrap_or(Err(LogError::Hung { directory }))
    }
}

/// How long work in a log directory may take. A working disk needs much less, and kubelet waits much longer.
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
    };

    use super::*;
    use crate::{
        clock::forward,
        error::{Kind, WithKind as _},
    };

    fn place(pod: &str) -> LogPath {
        let root = Path::new("/logs").join(pod);
        LogPath::of(&root.join("main/0.log"), Some(&root)).unwrap()
    }

    #[tokio::test]
    async fn a_directory_that_hangs_gets_no_further_work() {
        let directories = Directories::default();
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
        let (answer, ()) = tokio::join!(directories.run(place("a"), hang), async {
            while began.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            forward(TIMEOUT).await;
        });
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), Kind::DeadlineExceeded);
        assert!(error.to_string().contains("/logs/a"), "{error}");
        let count = Arc::clone(&began);
        let again = directories.run(place("a"), move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let (again, ()) = tokio::join!(again, forward(TIMEOUT));
        assert!(matches!(again, Err(LogError::Hung { .. })));
        assert_eq!(began.load(Ordering::SeqCst), 1);
        directories.run(place("b"), |_| Ok(())).await.unwrap();
        drop(release);
        directories.run(place("a"), |_| Ok(())).await.unwrap();
    }
}

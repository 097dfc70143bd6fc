//! Runs blocking work on a separate thread.

use std::{future::pending, panic::resume_unwind};

use tokio::task::{JoinError, spawn_blocking};

/// Starts `work` on a blocking thread. The returned future waits for the result of `work`, and panics if
/// `work` panics. When the future is dropped, `work` continues.
pub fn blocking<T, F>(work: F) -> impl Future<Output = T> + Send
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let work = spawn_blocking(work);
    async {
        match work.await.map_err(JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(panic)) => resume_unwind(panic),
            // The tokio runtime ended before `work` started, and also drops the future that waits here.
            Err(Err(_)) => pending().await,
        }
    }
}

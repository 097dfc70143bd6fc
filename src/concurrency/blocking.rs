//! Runs blocking work on a separate thread.

use std::{future::pending, panic::resume_unwind};

use tokio::task::{JoinError, spawn_blocking};

/// Starts `work` on a blocking thread; the returned future waits for its result. A panic of `work` continues
/// there, as if the caller had done the work itself. Dropping the future leaves the work running.
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
            // The runtime ends before the work began, and drops the caller as well.
            Err(Err(_)) => pending().await,
        }
    }
}

//! Runs blocking work on a separate thread, and waits for tasks that may panic.

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
        match result_or_panic(work.await).await.map_err(JoinError::into_panic) {
            Ok(done) => done,
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// The result of a task that nobody aborts, or its panic. If the tokio runtime has cancelled the task because the
/// runtime ends, waits forever, because the runtime also drops the caller's future.
pub async fn result_or_panic<T>(ended: Result<T, JoinError>) -> Result<T, JoinError> {
    match ended {
        Err(error) if error.is_cancelled() => pending().await,
        ended => ended,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{task::JoinHandle, time::timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_the_runtime_cancels_has_no_panic() {
        let task: JoinHandle<()> = tokio::spawn(pending());
        task.abort();
        let ended = result_or_panic(task.await);
        timeout(Duration::from_secs(60), ended).await.unwrap_err();
        let panicked = tokio::spawn(async { panic!("a test") }).await;
        assert!(result_or_panic(panicked).await.unwrap_err().is_panic());
        assert_eq!(result_or_panic(tokio::spawn(async { 7 }).await).await.unwrap(), 7);
    }
}

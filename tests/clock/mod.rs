//! Moves the clock of a test's runtime past time limits, so that the test need not wait for them.
//!
//! Tokio's paused clock advances whenever all tasks wait, even if they wait for a socket or a process that
//! will answer soon. Here, the clock jumps ahead only when a test calls [`forward`].

use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::{
    task::yield_now,
    time::{advance, pause, resume},
};

/// Lets other tasks run, and then advances the clock of this runtime, which must have one thread.
pub(crate) async fn forward(time: Duration) {
    settle().await;
    pause();
    // The first poll of `advance` moves the clock. Other tasks must not run before `resume`.
    let _ = advance(time).now_or_never();
    resume();
}

/// Lets other tasks run many times, so that messages between them arrive.
pub(crate) async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

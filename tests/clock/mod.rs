//! Moves the clock of a test's runtime past time limits, so that the test need not wait for them.
//!
//! Tokio's paused clock moves whenever all tasks wait, even if they wait for a socket or a process
//! that is about to answer. This clock moves only when a test says so.

use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::{
    task::yield_now,
    time::{advance, pause, resume},
};

/// Moves the clock of this runtime, which must have one thread, forward. Before that, all tasks that
/// can run have run.
pub(crate) async fn forward(time: Duration) {
    settle().await;
    pause();
    // One poll moves the clock. No other task may run while it is paused.
    let _ = advance(time).now_or_never();
    resume();
}

/// Lets every task run that can, and those that they wake: messages in flight arrive.
pub(crate) async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

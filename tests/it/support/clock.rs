//! Moves the clock so that timeouts expire at once in tests with the fake dockerd.

use std::time::Duration;

use tokio::time::sleep;

use super::{bridge::TIMEOUT, fake_dockerd::server::FakeDockerd};
use crate::clock::{forward, settle};

/// Runs `work`. Whenever [`FakeDockerd::is_silent`] holds and no new call comes, moves the clock by [`TIMEOUT`].
pub(crate) async fn past_silence<T>(docker: &FakeDockerd, work: impl Future<Output = T>) -> T {
    let skipping = async {
        loop {
            sleep(PAUSE).await;
            let asked = docker.requests().len();
            settle().await;
            if docker.is_silent() && docker.requests().len() == asked {
                forward(TIMEOUT).await;
            }
        }
    };
    tokio::select! {
        done = work => done,
        () = skipping => unreachable!("it has no end"),
    }
}

/// Runs `work`, and moves the clock forward by `step` after every `pause`, up to a hundred times.
pub(crate) async fn hurry<T>(pause: Duration, step: Duration, work: impl Future<Output = T>) -> T {
    let hurrying = async {
        for _ in 0..100 {
            sleep(pause).await;
            forward(step).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        done = work => done,
        () = hurrying => unreachable!("it has no end"),
    }
}

/// A pause in real time, in which other threads can work.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

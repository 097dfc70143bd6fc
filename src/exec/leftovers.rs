//! Which processes of a command may be left after its caller got the answer, and how they are ended.
//! ExecSync, streamed exec and the clean-up after a crash use it.
//!
//! ```text
//! MayStart ──the engine starts it──▶ Running ──killed──▶ nothing
//!    ▲ └─it can no longer start─▶ nothing ◀─two scans, and the engine says so─ Uncertain
//!    └─ Running, if the engine has started no process
//! ```

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    error::ExecError,
    process::{Exec, end_all},
};
use crate::error::chain;

/// What may be left of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// Nothing that dockbridge has to end. Processes that a command left on purpose stay.
    Nothing,
    Running,
    /// The engine was asked to start it, and may still do so.
    MayStart,
    /// The engine says that it does not run. After a disturbance, the engine might not know what its helpers
    /// have started, or might be starting it now.
    Uncertain,
}

impl ExecError {
    /// What is left of a command that could not be started.
    pub const fn after_start(&self) -> Leftover {
        use crate::engine::error::EngineError::{Broken, Deadline, Garbled};
        match self {
            Self::Engine(Deadline { .. } | Broken { .. } | Garbled { .. }) => Leftover::MayStart,
            _ => Leftover::Nothing,
        }
    }

    /// What is left of a started command after this error.
    pub const fn after_end(&self) -> Leftover {
        if matches!(self, Self::NeverBegun { .. }) {
            Leftover::Uncertain
        } else {
            Leftover::Running
        }
    }
}

impl Exec {
    /// Ends what is left, and retries for a while if that fails. Returns whether nothing is left. If
    /// dockbridge stops, it does not wait for a command that may still start, because the next server finds
    /// its record. Fails with the reason why a process keeps running.
    pub async fn clear(
        &self,
        mut left: Leftover,
        stopping: &CancellationToken,
    ) -> Result<bool, ExecError> {
        let container = &self.finder().container;
        let (mut is_last, mut until) = (false, None);
        loop {
            let step = self.step(left);
            let step = match left {
                Leftover::Nothing => return Ok(true),
                Leftover::Running => step.await,
                _ if is_last => match timeout(LAST_LOOK, step).await {
                    Ok(step) => step,
                    Err(_) => return Ok(false),
                },
                _ => tokio::select! {
                    step = step => step,
                    () = stopping.cancelled() => {
                        is_last = true;
                        continue;
                    }
                },
            };
            match step {
                Ok(next) => (left, until) = (next, None),
                Err(error) if left == Leftover::MayStart => {
                    warn!(
                        container,
                        error = chain(&error),
                        "cannot ask Docker whether a command has started; the command may run"
                    );
                    return Err(error);
                }
                Err(error)
                    if error.may_pass()
                        && Instant::now() < *until.get_or_insert(Instant::now() + PERSISTENCE) =>
                {
                    warn!(container, error = chain(&error), "cannot kill a command yet; retrying");
                    sleep(KILL_AGAIN).await;
                }
                Err(error) => {
                    warn!(
                        container,
                        error = chain(&error),
                        "cannot kill a command; the command keeps running"
                    );
                    return Err(error);
                }
            }
        }
    }

    /// Returns what is left after this step.
    async fn step(&self, left: Leftover) -> Result<Leftover, ExecError> {
        match left {
            Leftover::Nothing => {}
            Leftover::MayStart if self.starts().await? => return Ok(Leftover::Running),
            Leftover::MayStart => {}
            Leftover::Running => match self.kill().await {
                Err(ExecError::NotStarted { .. }) => return Ok(Leftover::MayStart),
                killed => killed?,
            },
            Leftover::Uncertain => {
                end_all(self.finder(), None).await?;
                sleep(STARTED_SINCE).await;
                // The engine is asked after the last scan. The next scan finds a process started between
                // the two.
                end_all(self.finder(), None).await?;
                if self.may_run().await {
                    return Ok(Leftover::Uncertain);
                }
            }
        }
        Ok(Leftover::Nothing)
    }
}

/// Pause between two attempts to kill a command.
const KILL_AGAIN: Duration = Duration::from_millis(100);

/// How long to keep trying to kill a command. A node that cannot kill a process in this time has bigger
/// problems.
const PERSISTENCE: Duration = Duration::from_secs(300);

/// How long the engine may take to start a command after its caller has disconnected.
const STARTED_SINCE: Duration = Duration::from_secs(10);

/// How long the last scan may take when dockbridge stops.
const LAST_LOOK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;

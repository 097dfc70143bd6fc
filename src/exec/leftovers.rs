//! Ends the processes that a command has left: for ExecSync, also for commands of an earlier dockbridge process, and
//! for a streamed exec whose start failed.
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

/// Which processes of a command may be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// No process is left that dockbridge has to end.
    Nothing,
    Running,
    /// dockbridge has asked the engine to start the command, and the engine may still start it.
    MayStart,
    /// The engine has reported that the command did not start, or an earlier dockbridge process has left the command.
    /// containerd may still be starting the command.
    Uncertain,
}

impl ExecError {
    /// What may be left of a command whose start failed with this error.
    pub const fn after_start(&self) -> Leftover {
        use crate::engine::error::EngineError::{Broken, Deadline, Garbled};
        match self {
            Self::Engine(Deadline { .. } | Broken { .. } | Garbled { .. }) => Leftover::MayStart,
            _ => Leftover::Nothing,
        }
    }

    /// What may be left of a started command that failed with this error.
    pub const fn after_end(&self) -> Leftover {
        match self {
            Self::NeverBegun { .. } => Leftover::Uncertain,
            _ => Leftover::Running,
        }
    }
}

impl Exec {
    /// Ends the processes that a command has left. Returns false if dockbridge stops and the command may still start:
    /// the next dockbridge process finds the record of an ExecSync command. Fails if a process may continue to run.
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
                        "cannot find out from Docker whether a command has started; giving up, but \
                         the command may be running"
                    );
                    return Err(error);
                }
                Err(error)
                    if error.may_pass()
                        && Instant::now() < *until.get_or_insert(Instant::now() + KILL_TIMEOUT) =>
                {
                    warn!(
                        container,
                        error = chain(&error),
                        "cannot kill a command yet, or confirm its end; retrying"
                    );
                    sleep(KILL_AGAIN).await;
                }
                Err(error) => {
                    warn!(
                        container,
                        error = chain(&error),
                        "cannot kill a command, or confirm its end; the command may keep running"
                    );
                    return Err(error);
                }
            }
        }
    }

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
                // If a process starts between this scan and the engine's answer, the next step scans again.
                end_all(self.finder(), None).await?;
                if self.may_run().await {
                    return Ok(Leftover::Uncertain);
                }
            }
        }
        Ok(Leftover::Nothing)
    }
}

const KILL_AGAIN: Duration = Duration::from_millis(100);

/// How long to keep trying to kill a command. A node that cannot kill a command in this time has bigger problems.
const KILL_TIMEOUT: Duration = Duration::from_secs(300);

/// How long the engine or containerd may still take to start a command that the engine reported as failed, or
/// whose dockbridge process has ended.
const STARTED_SINCE: Duration = Duration::from_secs(10);

/// How long a stopping dockbridge still waits for a command that may start.
const LAST_LOOK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;

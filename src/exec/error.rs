//! Errors of exec commands and attach sessions.

use std::time::Duration;

use thiserror::Error;

use crate::{
    engine::error::EngineError,
    error::{Kind, WithKind},
};

/// A process in a container could not be started, followed or ended.
#[derive(Clone, Debug, Error)]
pub enum ExecError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The output has ended and dockbridge finds no running main process, but the engine reports no exit code.
    #[error("the docker engine reported no exit code for exec {exec} in container {container}")]
    NoExitCode { exec: String, container: String },
    /// The engine accepted the command but could not start it, and the reason is not the command itself.
    #[error(
        "the docker engine could not start a command in container {container}: {}",
        words(said)
    )]
    NeverBegun { container: String, said: String },
    #[error(
        "the docker engine no longer knows a command of container {container} (was Docker restarted, or the \
         container removed?), so the command's exit code is unknown (exec {exec})"
    )]
    Forgotten { exec: String, container: String },
    #[error(
        "the docker engine closed the connection of an exec while its process was still running in \
         container {container}"
    )]
    ConnectionLost { container: String },
    #[error(
        "the docker engine closed the connection of an attach to container {container}; the container may \
         still be running"
    )]
    AttachLost { container: String },
    #[error(
        "exec {exec} in container {container} may still be running: its process is not visible to \
         dockbridge; run dockbridge in the pid namespace of the docker engine, as root"
    )]
    HiddenProcess { exec: String, container: String },
    #[error(
        "the docker engine has not reported the start of exec {exec} in container {container}; the exec may start later"
    )]
    NotStarted { exec: String, container: String },
    #[error("dockbridge cannot look up the processes of container {container}: {reason}")]
    Unreadable { container: String, reason: String },
    #[error(
        "dockbridge tried to kill a command in container {container}, but could not confirm its \
         end within {}s",
        waited.as_secs()
    )]
    Unkillable { container: String, waited: Duration },
}

impl ExecError {
    /// Whether retrying may help.
    pub const fn may_pass(&self) -> bool {
        !matches!(self, Self::HiddenProcess { .. })
    }

    /// Whether the engine cannot be reached, or the connection to it broke.
    pub(super) const fn is_absence(&self) -> bool {
        matches!(self, Self::Engine(EngineError::Unreachable { .. } | EngineError::Broken { .. }))
    }
}

impl WithKind for ExecError {
    fn kind(&self) -> Kind {
        match self {
            Self::Engine(error) => error.kind(),
            Self::NoExitCode { .. } | Self::Unreadable { .. } => Kind::Internal,
            Self::Forgotten { .. }
            | Self::NeverBegun { .. }
            | Self::ConnectionLost { .. }
            | Self::AttachLost { .. }
            | Self::NotStarted { .. } => Kind::Unavailable,
            Self::HiddenProcess { .. } => Kind::Unimplemented,
            Self::Unkillable { .. } => Kind::DeadlineExceeded,
        }
    }
}

const fn words(said: &str) -> &str {
    if said.is_empty() { "the engine gave no reason" } else { said }
}

//! Request and result of ExecSync.

use std::time::Duration;

/// `ExecSyncRequest` of CRI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecSyncSpec {
    /// The container as the caller names it.
    pub container: String,
    /// Program and arguments; never empty.
    pub command: Vec<String>,
    pub timeout: Option<Duration>,
}

/// The output and exit code of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutcome {
    /// Standard output from the start.
    pub stdout: Vec<u8>,
    /// Standard error from the start.
    pub stderr: Vec<u8>,
    pub exit_code: i32,
}

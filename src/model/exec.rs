//! What ExecSync is asked for, and what it tells.

use std::time::Duration;

/// `ExecSyncRequest` of CRI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecSyncSpec {
    /// The container as the caller names it.
    pub container: String,
    /// Program and arguments; never empty.
    pub command: Vec<String>,
    /// How long it may take; none for as long as it wants.
    pub timeout: Option<Duration>,
}

/// What a command printed, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutcome {
    /// Standard output, from its beginning.
    pub stdout: Vec<u8>,
    /// Standard error, from its beginning.
    pub stderr: Vec<u8>,
    /// 0 is success.
    pub exit_code: i32,
}

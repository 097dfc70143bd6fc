//! The requests of ExecSync, Exec, Attach and PortForward, and the result of ExecSync. Containers and sandboxes
//! are named as the caller names them. A command is a program and its arguments, and never empty.

use std::time::Duration;

/// Which standard streams a caller wants connected: at least one of the three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    pub stdin: bool,
    pub stdout: bool,
    /// Standard error is connected. Never together with `tty`: a terminal has a single output.
    pub stderr: bool,
    pub tty: bool,
}

/// `ExecRequest` of CRI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecSpec {
    pub container: String,
    pub command: Vec<String>,
    pub streams: Streams,
}

/// `AttachRequest` of CRI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachSpec {
    pub container: String,
    pub streams: Streams,
}

/// `PortForwardRequest` of CRI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardSpec {
    pub sandbox: String,
    /// Announced ports, none of them 0. SPDY clients send the port again with each connection, so the list
    /// may be empty. WebSocket clients rely on its order.
    pub ports: Vec<u16>,
}

/// Size of a terminal in characters; neither is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub width: u16,
    pub height: u16,
}

/// The output to which a process wrote. A terminal only has standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    Stdout,
    Stderr,
}

impl Source {
    /// The stream's name in CRI and Docker logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// `ExecSyncRequest` of CRI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecSyncSpec {
    pub container: String,
    pub command: Vec<String>,
    /// None means no limit.
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

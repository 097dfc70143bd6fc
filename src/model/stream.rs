//! The requests of ExecSync, Exec, Attach and PortForward, and the result of ExecSync. Ids are as the caller wrote
//! them, until the call replaces them with full ids. A command is a program and its arguments, and never empty.

use std::time::Duration;

/// Which standard streams a caller wants to connect: at least one of input, output and error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    pub stdin: bool,
    pub stdout: bool,
    /// dockbridge refuses a request that sets both `stderr` and `tty`: a terminal has a single output.
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
    /// Ports in the order of the request; no port is 0. Can be empty. A SPDY client sends a port with each connection.
    /// A WebSocket client sends a position in this list or, if it is empty, among the ports of its query.
    pub ports: Vec<u16>,
}

/// Size of a terminal in characters; neither width nor height is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub width: u16,
    pub height: u16,
}

/// The standard stream to which a process wrote. All output to a terminal counts as standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    Stdout,
    Stderr,
}

impl Source {
    /// Name of the stream in CRI and Docker logs.
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
    /// `None` means that the command has no time limit.
    pub timeout: Option<Duration>,
}

/// The output and exit code of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutcome {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit_code: i32,
}

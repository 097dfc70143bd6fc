//! The requests of ExecSync, Exec, Attach and PortForward, and the result of ExecSync. Ids of containers and
//! sandboxes are still as the caller wrote them. A command is a program and its arguments, and never empty.

use std::time::Duration;

/// Which standard streams a caller wants to connect: at least one of input, output and error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    pub stdin: bool,
    pub stdout: bool,
    /// Never set together with `tty`, because a terminal has a single output.
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
    /// Ports in the order of the request; no port is 0. The list may be empty for a SPDY client, which sends
    /// the port again with each connection. A WebSocket client refers to a port by its position in this list.
    pub ports: Vec<u16>,
}

/// Size of a terminal in characters; neither width nor height is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub width: u16,
    pub height: u16,
}

/// The standard stream to which a process wrote. A process with a terminal has only standard output.
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
    /// `None` means no limit.
    pub timeout: Option<Duration>,
}

/// The output and exit code of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutcome {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit_code: i32,
}

//! What Exec, Attach and PortForward are asked to connect.

/// Which standard streams a caller wants connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    pub stdin: bool,
    pub stdout: bool,
    /// The caller takes errors. Never together with `tty`: a terminal has one output.
    pub stderr: bool,
    /// The process has a terminal.
    pub tty: bool,
}

/// `ExecRequest` of CRI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecSpec {
    /// The container as the caller names it.
    pub container: String,
    /// Program and arguments; never empty.
    pub command: Vec<String>,
    /// What to connect; at least one of the three.
    pub streams: Streams,
}

/// `AttachRequest` of CRI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachSpec {
    /// The container as the caller names it.
    pub container: String,
    /// What to connect; at least one of the three.
    pub streams: Streams,
}

/// `PortForwardRequest` of CRI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardSpec {
    /// The sandbox as the caller names it.
    pub sandbox: String,
    /// Ports announced, none 0. SPDY clients name the port of each connection again, so the list
    /// may be empty; WebSocket clients rely on its order.
    pub ports: Vec<u16>,
}

/// Size of a terminal in characters; neither is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Lines.
    pub height: u16,
}

/// Which of its outputs a process wrote to. A terminal's is always the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    Stdout,
    Stderr,
}

impl Source {
    /// The stream's name in CRI logs and Docker's logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

//! Why `dockbridge setup` changed nothing, for the operator's terminal.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::host::error::HostError;

/// Why the text of `daemon.json` was not changed.
#[derive(Debug, Error)]
pub enum DaemonJsonError {
    /// Docker itself also reads UTF-16 with a byte order mark.
    #[error("not UTF-8: convert it first")]
    NotText,
    #[error("not a JSON object: {0}")]
    Syntax(serde_json::Error),
    #[error("\"runtimes\" is not an object: {0}")]
    Runtimes(serde_json::Error),
    /// A name appears twice, and we cannot decide which one counts.
    #[error("\"{0}\" appears twice: remove one")]
    Duplicate(&'static str),
    #[error(
        "there is a runtime \"dockbridge\" that dockbridge setup did not write: {0}; remove or \
         rename it first"
    )]
    Foreign(String),
    /// Docker would not start without its default runtime.
    #[error("\"default-runtime\" is \"dockbridge\": name another one first")]
    IsDefault,
}

/// A failed setup. Unless the error says otherwise, nothing was changed.
#[derive(Debug, Error)]
pub enum SetupError {
    #[error("{}: {reason}", path.display())]
    DaemonJson { path: PathBuf, reason: DaemonJsonError },
    /// The file cannot be read or written.
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("cannot write {}: run dockbridge setup as root; nothing was changed", path.display())]
    NotAllowed { path: PathBuf },
    #[error("dockbridge-runtime is missing: neither {} nor {} exists; make one of them a link to dockbridge",
        beside.display(), usual.display())]
    NoProgram {
        /// The path next to the running program.
        beside: PathBuf,
        usual: &'static Path,
    },
    #[error("there is no runtime {0}: install it, or give its absolute path")]
    NoRuntime(String),
    /// Docker reads runtimes from only one place.
    #[error(
        "dockerd (process {pid}) has --add-runtime in its command line, and does not start if its \
         file also has \"runtimes\": move those into {}, or add --add-runtime dockbridge={program} to \
         the command line, and restart Docker (without live-restore that ends every container)", path.display()
    )]
    FlagsAndFile { pid: u32, path: PathBuf, program: String },
    /// Only dockerd knows the directory to which a relative path refers.
    #[error(
        "dockerd (process {pid}) was started with --config-file {path:?}: name the file with \
             --daemon-json"
    )]
    RelativeFile { pid: u32, path: String },
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl SetupError {
    pub(super) fn of(error: HostError, path: &Path) -> Self {
        match error.source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotAllowed { path: path.to_owned() },
            _ => Self::Host(error),
        }
    }
}

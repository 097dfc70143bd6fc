//! Errors of plugin calls, and whether a retry helps.

use std::path::PathBuf;

use thiserror::Error;

use crate::{
    error::{self, Kind, chain},
    host::process::{ProcessError, ProcessExit},
};

/// A plugin that failed.
#[derive(Debug, Error)]
#[error("network plugin {plugin}, {command}: {}", chain(failure))]
pub struct PluginError {
    /// Its name in the configuration.
    pub plugin: String,
    pub command: &'static str,
    pub failure: Box<Failure>,
}

/// How a plugin fails.
#[derive(Debug, Error)]
pub enum Failure {
    #[error("the plugin is not in {searched}")]
    Missing {
        /// The directories, in order.
        searched: String,
    },
    #[error("{} is not executable", path.display())]
    NotExecutable { path: PathBuf },
    /// The search did not end, because a file system does not answer.
    #[error("cannot search {searched}: a file system there does not answer; check its mounts")]
    Unsearchable { searched: String },
    /// The plugin reported an error in the form of the specification.
    #[error("{message} (code {code})")]
    Reported {
        /// Code: below 100 from the specification, above the plugin's own.
        code: i64,
        message: String,
    },
    /// The plugin failed without an error in the form of the specification.
    #[error("{exit}; output: {output}")]
    Exit {
        exit: ProcessExit,
        /// The beginning of its output and errors.
        output: String,
    },
    #[error("cannot parse the plugin's output ({reason}): {output}")]
    Malformed { reason: String, output: String },
    /// The plugin could not be started, was killed, or its exit could not be read.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl PluginError {
    pub(super) fn new(plugin: &str, command: &'static str, failure: Failure) -> Self {
        Self { plugin: plugin.to_owned(), command, failure: Box::new(failure) }
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.failure.kind()
    }

    /// Whether the plugin ran, ended on its own and did not request another call. If the namespace is gone,
    /// a repeat of such a DEL is useless.
    pub fn is_final(&self) -> bool {
        match &*self.failure {
            Failure::Reported { code, .. } => !TRY_LATER.contains(code),
            Failure::Exit { exit, .. } => matches!(exit, ProcessExit::Code(_)),
            _ => false,
        }
    }
}

/// Combines the errors of a chain into one failure. All plugins were called.
///
/// # Errors
/// There is an error. The kind is that of the first one.
pub(in crate::network) fn all_succeeded(errors: &[PluginError]) -> Result<(), error::Failure> {
    let Some(first) = errors.first() else { return Ok(()) };
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Err(error::Failure::new(first.kind(), texts.join("; ")))
}

impl Failure {
    /// A retry helps if the plugin says so, or if the plugin may be installed later.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Missing { .. } | Self::NotExecutable { .. } => Kind::Unavailable,
            Self::Reported { code, .. } if TRY_LATER.contains(code) => Kind::Unavailable,
            Self::Unsearchable { .. } => Kind::DeadlineExceeded,
            Self::Process(error) => error.kind(),
            Self::Reported { .. } | Self::Exit { .. } | Self::Malformed { .. } => Kind::Unknown,
        }
    }
}

/// "Try again later", and the two of STATUS that mean "not now".
const TRY_LATER: [i64; 3] = [11, 50, 51];

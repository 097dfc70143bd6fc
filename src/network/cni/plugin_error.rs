//! Errors of calls to CNI plugins, and whether a retry helps.

use std::path::PathBuf;

use thiserror::Error;

use crate::{
    error::{self, Kind, chain},
    host::process::{ProcessError, ProcessExit},
};

/// The failure of one call to a CNI plugin.
#[derive(Debug, Error)]
#[error("network plugin {plugin}, {command}: {}", chain(failure))]
pub struct PluginError {
    /// The plugin's `type` in the network configuration.
    pub plugin: String,
    pub command: &'static str,
    pub failure: Box<Failure>,
}

/// The ways in which a call to a CNI plugin fails.
#[derive(Debug, Error)]
pub enum Failure {
    #[error("the plugin is not in {searched}")]
    Missing {
        /// The directories in which dockbridge searched for the plugin, in order.
        searched: String,
    },
    #[error("{} is not an executable file", path.display())]
    NotExecutable { path: PathBuf },
    #[error(
        "the search for the plugin in {searched} did not end in time; check the file systems there"
    )]
    Unsearchable { searched: String },
    /// The plugin printed an error object of the CNI specification.
    #[error("{message} (code {code})")]
    Reported {
        /// The CNI specification defines or reserves codes below 100; plugins define other codes.
        code: i64,
        message: String,
    },
    /// The plugin failed without an error object of the CNI specification.
    #[error("{exit}; output: {output}")]
    Exit {
        exit: ProcessExit,
        /// The beginning of what the plugin wrote to standard output and standard error.
        output: String,
    },
    #[error("cannot parse the plugin's output ({reason}): {output}")]
    Malformed { reason: String, output: String },
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl PluginError {
    pub(super) fn new(plugin: &str, command: &'static str, failure: Failure) -> Self {
        Self { plugin: plugin.to_owned(), command, failure: Box::new(failure) }
    }

    /// The kind of error, which determines the gRPC code.
    pub fn kind(&self) -> Kind {
        self.failure.kind()
    }

    /// Whether the plugin itself failed, was not killed, and did not ask the runtime to try again later. If the pod's
    /// namespace is gone, a final failure of DEL does not prevent the removal of the pod.
    pub fn is_final(&self) -> bool {
        match &*self.failure {
            Failure::Reported { code, .. } => !TRY_LATER.contains(code),
            Failure::Exit { exit, .. } => matches!(exit, ProcessExit::Code(_)),
            _ => false,
        }
    }
}

/// Combines the errors of all plugins of a chain into one failure, which has the kind of the first error.
pub(in crate::network) fn all_succeeded(errors: &[PluginError]) -> Result<(), error::Failure> {
    let Some(first) = errors.first() else { return Ok(()) };
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Err(error::Failure::new(first.kind(), texts.join("; ")))
}

impl Failure {
    /// "Unavailable" if the plugin asks for a retry, or if an installer may still install the plugin.
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

/// Codes of the CNI specification: 11 means "try again later", and STATUS returns 50 and 51.
const TRY_LATER: [i64; 3] = [11, 50, 51];

//! The handle to the specification files of this host.

use std::path::PathBuf;

/// The specification files of this host. Read at each use, as vendors rewrite them.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// Directories of specifications; a later one wins over an earlier one.
    #[expect(dead_code, reason = "the skeleton: see the first commit after it")]
    directories: Vec<PathBuf>,
}

impl Registry {
    /// Reads specifications below these directories.
    pub const fn new(directories: Vec<PathBuf>) -> Self {
        Self { directories }
    }
}

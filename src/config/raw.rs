//! A setting as the operator wrote it: the unchecked text, and where it was written.

use std::{fmt, path::PathBuf};

use super::key::Key;

/// One value, before it is parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawValue {
    pub key: Key,
    pub text: String,
    pub source: Source,
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    /// The program was called by the name of cri-dockerd, and the value is cri-dockerd's default.
    ProgramName,
    File {
        path: PathBuf,
        line: usize,
    },
    Environment(String),
    /// In this flag, named without its dashes.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::ProgramName => f.write_str("default of cri-dockerd"),
            Self::File { path, line } => write!(f, "file {} line {line}", path.display()),
            Self::Environment(name) => write!(f, "variable {name}"),
            Self::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

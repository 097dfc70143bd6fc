//! A setting before it is checked: its text, and the source of the text.

use std::{fmt, path::PathBuf};

use super::key::Key;

/// The value of one setting, before it is parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawValue {
    pub key: Key,
    pub text: String,
    pub source: Source,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    /// dockbridge was started under the name `cri-dockerd`, and the value is cri-dockerd's default.
    ProgramName,
    File {
        path: PathBuf,
        line: usize,
    },
    Environment(String),
    /// The flag that sets the value, named without its dashes.
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

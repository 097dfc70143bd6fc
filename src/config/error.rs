//! Errors of the configuration. Each error names the flag, variable or file that the operator has to edit.

use std::{io, path::PathBuf};

use thiserror::Error;

use super::{raw::Source, value::Invalid};

/// A configuration that cannot be used. dockbridge checks the configuration before it starts anything.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("{origin}: {text:?} is not valid for {key}: {source}")]
    Value { key: &'static str, origin: Source, text: String, source: Invalid },
    #[error("{first} and {second} both set {key}, to different values: remove one of them")]
    Conflict { key: &'static str, first: Source, second: Source },
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} line {line}: {message}", path.display())]
    File { path: PathBuf, line: usize, message: String },
}

//! The kubelet's log path as a link to the engine's own file: the `docker` format.
//!
//! Kubelet and crictl read Docker's JSON lines as well as CRI's. It costs nothing, and the
//! kubelet cannot rotate it.

use std::path::Path;

use super::{error::LogError, log_path::LogPath};
use crate::host::beneath;

/// Points the log path at the engine's file, replacing a link that pointed elsewhere.
///
/// # Errors
/// The path is held by something that is not a link, or cannot be written.
pub fn make(at: &LogPath, engine_log: &Path) -> Result<(), LogError> {
    beneath::link(at.root(), at.name(), engine_log).map_err(LogError::Target)
}

/// Removes the link; a real file there belongs to the kubelet and stays.
///
/// # Errors
/// The link cannot be removed.
pub fn remove(at: &LogPath) -> Result<(), LogError> {
    beneath::unlink(at.root(), at.name()).map_err(LogError::Target)
}

/// Makes the directory of a log, which a bare client may not have done, and checks that a log can
/// have the path.
///
/// # Errors
/// It cannot be made, or something else has the path.
pub fn prepare(at: &LogPath) -> Result<(), LogError> {
    beneath::prepare(at.root(), at.name()).map_err(LogError::Target)
}

//! The kubelet's log path as a link to the engine's own log file, for the container verbs.

use std::path::Path;

use super::error::ContainerError;
use crate::{
    logs::{error::LogError, link, place::LogPath},
    model::record::{ContainerRecord, SandboxRecord},
};

/// Points the log path at the engine's file, replacing a link of ours that pointed elsewhere.
///
/// # Errors
/// The path is held by something that is not a link, or cannot be written.
pub async fn make(
    record: &ContainerRecord,
    sandbox: Option<&SandboxRecord>,
) -> Result<(), ContainerError> {
    let place = place(record.document.spec.log_path.as_deref(), sandbox);
    let (Some(place), Some(target)) = (place, record.engine_log.clone()) else {
        return Ok(());
    };
    apart("make log link", place, move |place| link::make(place, &target)).await
}

/// Removes the link; a real file there belongs to the kubelet and stays.
///
/// # Errors
/// The link cannot be removed.
pub async fn remove(
    record: &ContainerRecord,
    sandbox: Option<&SandboxRecord>,
) -> Result<(), ContainerError> {
    let Some(place) = place(record.document.spec.log_path.as_deref(), sandbox) else {
        return Ok(());
    };
    apart("remove log link", place, link::remove).await
}

/// Makes the directory of a log: a bare client may not have done so.
///
/// # Errors
/// It cannot be made.
pub async fn make_directory(
    log_path: Option<&Path>,
    sandbox: &SandboxRecord,
) -> Result<(), ContainerError> {
    let Some(place) = place(log_path, Some(sandbox)) else { return Ok(()) };
    apart("make log directory", place, link::make_directory).await
}

fn place(log_path: Option<&Path>, sandbox: Option<&SandboxRecord>) -> Option<LogPath> {
    LogPath::of(log_path?, sandbox.and_then(|pod| pod.document.spec.log_directory.as_deref()))
}

/// Does it off the runtime's threads.
async fn apart(
    action: &'static str,
    place: LogPath,
    work: impl FnOnce(&LogPath) -> Result<(), LogError> + Send + 'static,
) -> Result<(), ContainerError> {
    let path = place.full();
    let done = tokio::task::spawn_blocking(move || work(&place)).await;
    let cause = match done {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(LogError::SourceAbsent { .. })) => std::io::ErrorKind::NotFound.into(),
        Ok(Err(LogError::Source(refused) | LogError::Target(refused))) => refused.source,
        Err(lost) => lost.into(),
    };
    Err(ContainerError::file(action, path, cause))
}

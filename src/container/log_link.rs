//! The kubelet's log path as a link to the engine's own log file.
//!
//! Kubelet and crictl read Docker's JSON lines as well as CRI's. Real CRI log files that can
//! rotate are the `logs` room's; this is the zero-copy choice beside it.

use std::{io, path::Path};

use super::error::ContainerError;
use crate::model::record::ContainerRecord;

/// Points the log path at the engine's file, replacing a link of ours that pointed elsewhere.
///
/// # Errors
/// The path is held by something that is not a link, or cannot be written.
pub async fn make(record: &ContainerRecord) -> Result<(), ContainerError> {
    let (Some(link), Some(target)) = (&record.document.spec.log_path, &record.engine_log) else {
        return Ok(());
    };
    if tokio::fs::read_link(link).await.is_ok_and(|now| now == *target) {
        return Ok(());
    }
    unlink(link).await.map_err(|cause| ContainerError::file("replace log link", link, cause))?;
    tokio::fs::symlink(target, link)
        .await
        .map_err(|cause| ContainerError::file("make log link", link, cause))
}

/// Removes the link; a real file there belongs to the kubelet and stays.
///
/// # Errors
/// The link cannot be removed.
pub async fn remove(record: &ContainerRecord) -> Result<(), ContainerError> {
    let Some(link) = &record.document.spec.log_path else { return Ok(()) };
    unlink(link).await.map_err(|cause| ContainerError::file("remove log link", link, cause))
}

async fn unlink(path: &Path) -> io::Result<()> {
    match tokio::fs::symlink_metadata(path).await {
        Ok(found) if found.is_symlink() => tokio::fs::remove_file(path).await,
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

//! The kubelet's log path as a link to the engine's own log file.
//!
//! Kubelet and crictl read Docker's JSON lines as well as CRI's. Real CRI log files that can
//! rotate are the `logs` room's; this is the zero-copy choice beside it. Pods may be able to
//! write to their log directory, so nothing here follows a link below it.

use std::path::{Path, PathBuf};

use super::error::ContainerError;
use crate::{
    host::{beneath, error::HostError},
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
    let place = Place::of(record.document.spec.log_path.as_deref(), sandbox);
    let (Some(place), Some(target)) = (place, record.engine_log.clone()) else {
        return Ok(());
    };
    place.with("make log link", move |root, name| beneath::link(root, name, &target)).await
}

/// Removes the link; a real file there belongs to the kubelet and stays.
///
/// # Errors
/// The link cannot be removed.
pub async fn remove(
    record: &ContainerRecord,
    sandbox: Option<&SandboxRecord>,
) -> Result<(), ContainerError> {
    let Some(place) = Place::of(record.document.spec.log_path.as_deref(), sandbox) else {
        return Ok(());
    };
    place.with("remove log link", beneath::unlink).await
}

/// Makes the directory of a log: a bare client may not have done so.
///
/// # Errors
/// It cannot be made.
pub async fn make_directory(
    log_path: Option<&Path>,
    sandbox: &SandboxRecord,
) -> Result<(), ContainerError> {
    let Some(place) = Place::of(log_path, Some(sandbox)) else { return Ok(()) };
    let make = |root: &Path, name: &Path| {
        beneath::make_directory(root, name.parent().unwrap_or(Path::new("")))
    };
    place.with("make log directory", make).await
}

/// A log's place: a name below a directory that is the caller's.
struct Place {
    root: PathBuf,
    name: PathBuf,
}

impl Place {
    /// Below the pod's log directory. Where that is not known any more, the layout is taken to
    /// be the kubelet's: a directory for each container.
    fn of(log_path: Option<&Path>, sandbox: Option<&SandboxRecord>) -> Option<Self> {
        let path = log_path?;
        let stated = sandbox.and_then(|sandbox| sandbox.document.spec.log_directory.as_deref());
        let within = |root: &&Path| path.strip_prefix(root).is_ok_and(|name| name != Path::new(""));
        let root = stated.filter(within).or_else(|| path.parent()?.parent())?;
        let name = path.strip_prefix(root).ok()?;
        Some(Self { root: root.to_owned(), name: name.to_owned() })
    }

    /// Does it off the runtime's threads.
    async fn with(
        self,
        action: &'static str,
        work: impl FnOnce(&Path, &Path) -> Result<(), HostError> + Send + 'static,
    ) -> Result<(), ContainerError> {
        let path = self.root.join(&self.name);
        let done = tokio::task::spawn_blocking(move || work(&self.root, &self.name)).await;
        let cause = match done {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(refused)) => refused.source,
            Err(lost) => lost.into(),
        };
        Err(ContainerError::file(action, path, cause))
    }
}

//! The text of a seccomp profile of this host.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::host_check::within_deadline;
use crate::{
    concurrency::blocking::blocking, container::error::ContainerError, error::Kind,
    host::file::read_text, model::security::Profile,
};

/// The text of a localhost seccomp profile; none for any other, and for the privileged, who
/// never have one. The file is the caller's to provide, so a missing one is the request's fault.
///
/// # Errors
/// It is not there, not to be read, not UTF-8, or longer than a mebibyte.
pub async fn seccomp_profile(
    profile: Option<&Profile>,
    privileged: bool,
) -> Result<Option<String>, ContainerError> {
    let Some(Profile::Localhost(path)) = profile else { return Ok(None) };
    if privileged {
        return Ok(None);
    }
    let path = PathBuf::from(path);
    let place = path.clone();
    within_deadline(|check| async move {
        check.at(&place)?;
        match blocking(move || read_profile(&place)).await {
            Ok(text) => Ok(Some(text)),
            Err(cause) => Err(ContainerError::File {
                action: "read the seccomp profile",
                path,
                cause: Arc::new(cause),
                kind: Kind::InvalidArgument,
            }),
        }
    })
    .await
}

fn read_profile(path: &Path) -> io::Result<String> {
    read_text(path, LONGEST_PROFILE).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(io::ErrorKind::NotFound, MISSING),
        _ => error,
    })
}

/// Far more than a profile needs; the engine has no limit.
const LONGEST_PROFILE: u64 = 1 << 20;
/// Kubelet only names the file; whoever wrote the pod thinks it is everywhere.
const MISSING: &str = "no such file; a profile has to be on every node its pods may run on";

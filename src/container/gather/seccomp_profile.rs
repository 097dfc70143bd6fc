//! The text of a seccomp profile of this host.

use std::{io, path::PathBuf};

use super::host_check::within_deadline;
use crate::{
    concurrency::blocking::blocking, container::node::refused_file, error::Failure,
    host::file::read_text, model::security::Profile,
};

/// The text of a localhost seccomp profile. None for any other profile, and for privileged containers, which never have
/// a profile. The author of the pod must provide the file, so a missing file is an error of the request.
///
/// # Errors
/// The file is missing, unreadable, not UTF-8, or larger than 1 MiB, or its file system does not answer.
pub async fn seccomp_profile(
    profile: Option<&Profile>,
    privileged: bool,
) -> Result<Option<String>, Failure> {
    let profile = profile.filter(|_| !privileged);
    let Some(Profile::Localhost(path)) = profile else { return Ok(None) };
    let path = PathBuf::from(path);
    let place = path.clone();
    within_deadline(|check| async move {
        check.at(&place)?;
        let read = blocking(move || read_text(&place, LONGEST_PROFILE)).await;
        read.map(Some).map_err(|error| {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            let cause = if is_missing { io::Error::new(error.kind(), MISSING) } else { error };
            refused_file("read the seccomp profile", &path, cause)
        })
    })
    .await
}

/// The size limit of a profile in bytes, far above any real profile. The engine does not limit the size of a profile.
const LONGEST_PROFILE: u64 = 1 << 20;
/// kubelet passes only the path of the profile's file, but authors of pods often assume that the file exists
/// on every node.
const MISSING: &str = "no such file; every node that may run the pod needs the profile";

//! The users and groups in a container's image.

use std::sync::Arc;

use tracing::warn;

use crate::{
    container::error::ContainerError,
    error::chain,
    image_files::{error::ImageFilesError, service::ImageFiles},
    model::{accounts::Accounts, container::ContainerSpec, record::ImageRecord},
    translate::plan::identity::needs_accounts,
};

/// The accounts of the image. If they cannot be read, only a container whose groups depend on them fails.
/// For others, the user in the status stays unknown.
pub(super) async fn accounts(
    files: &ImageFiles,
    image: &ImageRecord,
    spec: &ContainerSpec,
) -> Result<Option<Arc<Accounts>>, ContainerError> {
    match files.accounts(&image.id).await {
        Ok(accounts) => Ok(Some(accounts)),
        // The engine also opens it at the start, and would hang with the container.
        Err(error @ ImageFilesError::NotRegularFile { .. }) => Err(error.into()),
        Err(error) if needs_accounts(&spec.security.identity, &image.user) => Err(error.into()),
        Err(error) => {
            let error = chain(&error);
            warn!(image = %image.id, error, "cannot read /etc/passwd or /etc/group of an image; using none");
            Ok(None)
        }
    }
}

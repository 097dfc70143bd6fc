//! The users and groups of the image of a container.

use std::sync::Arc;

use tracing::warn;

use crate::{
    container::{error::ContainerError, service::Containers},
    error::chain,
    image_files::error::ImageFilesError,
    model::{accounts::Accounts, container::ContainerSpec, record::ImageRecord},
    translate::plan::identity::needs_accounts,
};

impl Containers {
    /// The accounts of the image. An image that cannot be read fails only a container
    /// whose groups depend on it; the user of others stays unknown.
    pub(super) async fn accounts(
        &self,
        image: &ImageRecord,
        spec: &ContainerSpec,
    ) -> Result<Option<Arc<Accounts>>, ContainerError> {
        match self.image_files.accounts(&image.id).await {
            Ok(accounts) => Ok(Some(accounts)),
            // The engine opens it as well, at the start, and would hang with the container.
            Err(error @ ImageFilesError::NotRegularFile { .. }) => Err(error.into()),
            Err(error) if needs_accounts(&spec.security.identity, &image.user) => Err(error.into()),
            Err(error) => {
                let error = chain(&error);
                warn!(image = %image.id, error, "cannot read /etc/passwd or /etc/group of an image; using none");
                Ok(None)
            }
        }
    }
}

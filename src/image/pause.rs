//! The pause image: either the image that is built into dockbridge, or an image that the operator names.

use tracing::{info, warn};

use super::{credentials, service::Images};
use crate::{
    error::{Failure, Kind},
    model::{
        id::ImageId,
        image::PullRequest,
        reference::{ImageReference, InvalidReference, printable},
    },
    pause::archive,
};

impl Images {
    /// The pause image, if the store has it. Does not call the engine.
    ///
    /// A pause image that has lost its name remains the pause image, because running pods use it, until it is
    /// removed, another allowed image has the name, or dockbridge restarts.
    pub(super) fn cached_pause(&self) -> Option<ImageId> {
        let snapshot = self.store.snapshot();
        let mut last = self.pause.lock();
        let named = snapshot.image(&self.pause_name()).map(|record| &record.id);
        if let Some(named) = named
            && Some(named) != last.as_ref()
            && self.may_be_pause(named)
        {
            *last = Some(named.clone());
        }
        last.clone().filter(|id| snapshot.image(id.as_str()).is_some())
    }

    /// Loads or pulls the pause image if the engine does not have it, and then updates the store.
    pub(super) async fn ensure_pause(&self) -> Result<ImageId, Failure> {
        let name = &self.pause_name();
        let id = match self.engine.inspect_image(name).await {
            Ok(record) if self.may_be_pause(&record.id) => record.id,
            Ok(other) => {
                let id = other.id;
                warn!(image = name, %id, "another image has the name of the built-in pause image; giving the name to the built-in image");
                self.load_pause().await?
            }
            Err(error) if !error.is_not_found() => return Err(error.into()),
            Err(_) if self.live.current().sandbox_image.is_some() => self.pull_pause(name).await?,
            Err(_) => self.load_pause().await?,
        };
        self.store.refresh_image(name).await?;
        *self.pause.lock() = Some(id.clone());
        Ok(id)
    }

    /// Whether the image that has the pause image's name may be used. If the operator has set the name, any image
    /// with the name may be used. Otherwise only the built-in image may be used, even if another image has its name.
    fn may_be_pause(&self, id: &ImageId) -> bool {
        self.live.current().sandbox_image.is_some() || archive::is_of(id.as_str())
    }

    async fn load_pause(&self) -> Result<ImageId, Failure> {
        let before = self.store.snapshot();
        self.engine.load_image(archive::archive()).await?;
        let reference = archive::reference();
        let id = match self.engine.inspect_image(reference).await {
            Ok(record) => record.id,
            Err(error) if error.is_not_found() => {
                let text =
                    format!("docker loaded the pause image but does not list it as {reference}");
                return Err(Failure::new(Kind::Internal, text));
            }
            Err(error) => return Err(error.into()),
        };
        info!(image = reference, %id, "loaded the built-in pause image");
        let name = ImageReference::parse(reference);
        let name = name.map_err(|source| unpullable(reference, &source))?;
        self.record_pulled(&before, &id, &name).await?;
        Ok(id)
    }

    async fn pull_pause(&self, name: &str) -> Result<ImageId, Failure> {
        let reference = ImageReference::parse(name).map_err(|cause| unpullable(name, &cause))?;
        let reference = reference.with_default_tag();
        let credentials = match &self.live.current().registry_config {
            Some(path) => credentials::lookup(path, reference.domain()).await,
            None => None,
        };
        self.pull(PullRequest { reference, credentials }).await
    }

    fn pause_name(&self) -> String {
        let named = &self.live.current().sandbox_image;
        named.as_deref().unwrap_or(archive::reference()).to_owned()
    }
}

fn unpullable(name: &str, cause: &InvalidReference) -> Failure {
    let name = printable(name);
    Failure::unmet(format!("the pause image {name} is missing and cannot be pulled: {cause}"))
}

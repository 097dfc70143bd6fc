//! What keeps an image in the engine while its files are mounted by us: the engine knows nothing
//! of that, but it lets go of no image that a container was made of, not even for `docker rmi`.

use super::{error::RootfsError, room::Rootfs};
use crate::{
    engine::error::EngineError,
    model::{id::ImageId, label, record::Observed},
    translate::plan::unstarted::unstarted,
};

impl Rootfs {
    /// Has the image kept; whether it was not until now.
    pub(super) async fn hold(&self, image: &ImageId) -> Result<bool, RootfsError> {
        let name = holder_name(image);
        match self.engine.inspect_container(&name).await {
            Err(error) if error.is_not_found() => {}
            answer => return Ok(answer.map(|_| false)?),
        }
        let body = unstarted(image, &self.volumes_of(image), label::IMAGE_PIN);
        match self.engine.create_container(&name, &body).await {
            Ok(_) => Ok(true),
            Err(EngineError::NameTaken { .. }) => Ok(false),
            Err(error) if error.is_not_found() => Err(RootfsError::NoImage),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets the image go.
    pub(super) async fn release(&self, image: &ImageId) -> Result<(), RootfsError> {
        Ok(self.engine.remove_container(&holder_name(image)).await?)
    }

    /// The images kept.
    pub(super) async fn held(&self) -> Result<Vec<ImageId>, RootfsError> {
        let mut images = Vec::new();
        for holder in self.engine.containers_named(NAME_START, label::IMAGE_PIN).await? {
            match self.engine.inspect_container(&holder).await {
                Ok(Observed::Foreign(image)) => images.extend(image),
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(images)
    }
}

fn holder_name(image: &ImageId) -> String {
    format!("{NAME_START}{}", image.as_str().replace(':', "-"))
}

/// Not of the pods' scheme: the store takes it for somebody else's.
const NAME_START: &str = "dockbridge-keeps-";

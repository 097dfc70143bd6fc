//! Pins an image in the engine while dockbridge mounts its files. The engine does not know of that mount,
//! but it removes no image that a container uses, not even with `docker rmi`. So the pin is a container
//! that is never started.

use super::{error::ImageFilesError, service::ImageFiles};
use crate::{
    engine::error::EngineError,
    model::{id::ImageId, label, record::Observed},
    translate::plan::unstarted::unstarted,
};

impl ImageFiles {
    /// Pins the image. Returns whether the pin is new.
    pub(super) async fn pin(&self, image: &ImageId) -> Result<bool, ImageFilesError> {
        let name = pin_name(image);
        match self.engine.inspect_container(&name).await {
            Err(error) if error.is_not_found() => {}
            answer => return Ok(answer.map(|_| false)?),
        }
        let body = unstarted(image, &self.volumes_of(image), label::IMAGE_PIN);
        match self.engine.create_container(&name, &body).await {
            Ok(_) => Ok(true),
            Err(EngineError::NameTaken { .. }) => Ok(false),
            Err(error) if error.is_not_found() => Err(ImageFilesError::NoImage),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn unpin(&self, image: &ImageId) -> Result<(), ImageFilesError> {
        Ok(self.engine.remove_container(&pin_name(image)).await?)
    }

    pub(super) async fn pinned(&self) -> Result<Vec<ImageId>, ImageFilesError> {
        let mut images = Vec::new();
        for pin in self.engine.containers_named(NAME_START, label::IMAGE_PIN).await? {
            match self.engine.inspect_container(&pin).await {
                Ok(Observed::Foreign(pin)) => images.extend(pin.image),
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(images)
    }
}

fn pin_name(image: &ImageId) -> String {
    format!("{NAME_START}{}", image.as_str().replace(':', "-"))
}

/// Not a pod's name, so the store treats the container as foreign.
const NAME_START: &str = "dockbridge-image-pin-";

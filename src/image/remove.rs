//! Removes an image with all its names. Begins with a removal by id, so that an image in use keeps its names.

use tracing::info;

use super::service::Images;
use crate::{
    engine::error::EngineError,
    error::Failure,
    model::{
        id::ImageId,
        record::ImageRecord,
        reference::{ImageReference, names_id},
    },
};

impl Images {
    /// The id of the image with this name or id; None if the engine finds no such image.
    ///
    /// The image that the engine finds must really have the name: the engine may take a short name for an id's prefix.
    pub(super) async fn resolve(&self, name: &str) -> Result<Option<ImageId>, Failure> {
        match self.engine.inspect_image(name).await {
            Ok(record) => Ok(has_name(&record, name).then_some(record.id)),
            // A name that the engine rejects belongs to no image.
            Err(EngineError::NotFound { .. } | EngineError::Rejected { .. }) => Ok(None),
            // An image with an unreadable inspect can be removed if the store knows its id.
            Err(error @ (EngineError::Garbled { .. } | EngineError::TooLarge { .. })) => {
                let known = self.store.snapshot().image(name).map(|image| image.id.clone());
                known.map(Some).ok_or_else(|| error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn listed(&self, id: &ImageId) -> Result<Option<ImageRecord>, EngineError> {
        Ok(self.engine.list_images().await?.into_iter().find(|image| image.id == *id))
    }

    /// Removes the image, with at most [`ATTEMPTS`] attempts, and then updates the store.
    pub(super) async fn remove_now(&self, id: &ImageId) -> Result<(), Failure> {
        // The engine does not protect an image that is mounted into a container from a removal by id.
        if let Some(user) = self.store.snapshot().mounting(id).next() {
            return Err(in_use(id, user.id.as_str()));
        }
        for attempt in 0..=ATTEMPTS {
            let record = match self.engine.inspect_image(id.as_str()).await {
                Ok(record) => Some(record),
                Err(error) if error.is_not_found() => None,
                Err(EngineError::Garbled { .. } | EngineError::TooLarge { .. }) => {
                    self.listed(id).await?
                }
                Err(error) => return Err(error.into()),
            };
            let Some(record) = record else {
                self.store.refresh_image(id.as_str()).await?;
                info!(image = %id, "image removed");
                return Ok(());
            };
            // The last inspect only shows whether the last removal succeeded.
            if attempt < ATTEMPTS && self.remove_record(&record).await? {
                self.store.image_unlisted(id).await;
                info!(image = %id, "image removed, except for layers that other images are based on");
                return Ok(());
            }
        }
        let text = format!("image {id} still exists after {ATTEMPTS} attempts to remove it");
        Err(Failure::unmet(text))
    }

    /// Removes the image by its id first, which fails if a container uses the image. For an image in use,
    /// removals by name fail only for the last name. The removal by id also fails for an image with several names
    /// and for a parent of other images, so dockbridge itself checks which reason it was.
    ///
    /// Returns true if only the image's layers are left, because other images are based on them. Returns
    /// false otherwise; then the next inspect shows whether the image still exists.
    async fn remove_record(&self, record: &ImageRecord) -> Result<bool, Failure> {
        let error = match self.remove_name(record.id.as_str()).await {
            Ok(()) => return Ok(false),
            Err(error) if error.is_conflict() => error,
            Err(error) => return Err(error.into()),
        };
        let users = self.engine.containers_of_image(&record.id).await?;
        if let Some(container) = users.into_iter().next() {
            return Err(in_use(&record.id, &container));
        }
        let names: Vec<&String> = record.repo_tags.iter().chain(&record.repo_digests).collect();
        if names.is_empty() {
            // The image has no name. If the engine does not list the image, other images are based on it.
            let listed = self.listed(&record.id).await?;
            return if listed.is_some() { Err(error.into()) } else { Ok(true) };
        }
        for name in names {
            self.remove_name(name).await?;
        }
        Ok(false)
    }

    /// As `Engine::remove_image`, but also succeeds if no image has the name or id.
    pub(super) async fn remove_name(&self, name: &str) -> Result<(), EngineError> {
        match self.engine.remove_image(name).await {
            Err(error) if error.is_not_found() => Ok(()),
            answer => answer,
        }
    }
}

/// Whether `name` is the image's id, at least the first 12 digits of its id, or one of its names in any spelling.
pub(super) fn has_name(record: &ImageRecord, name: &str) -> bool {
    if names_id(name) {
        return record.id.as_str() == name || record.id.hex() == name;
    }
    let hex = name.strip_prefix("sha256:").unwrap_or(name);
    let Ok(wanted) = ImageReference::parse(name).map(ImageReference::with_default_tag) else {
        return is_id_prefix(record, hex);
    };
    let named = record.repo_tags.iter().chain(&record.repo_digests).any(|name| {
        ImageReference::parse(name).is_ok_and(|own| match wanted.digest() {
            Some(digest) => own.repository() == wanted.repository() && own.digest() == Some(digest),
            None => own == wanted,
        })
    });
    named || is_id_prefix(record, hex)
}

fn is_id_prefix(record: &ImageRecord, hex: &str) -> bool {
    hex.len() >= SHORTEST_PREFIX && record.id.hex().starts_with(hex)
}

/// How many times dockbridge tries to remove an image, for example one that somebody tags again each time.
const ATTEMPTS: u32 = 5;
/// The length of Docker's short id. A shorter text is more likely a name than an id.
const SHORTEST_PREFIX: usize = 12;

fn in_use(image: &ImageId, container: &str) -> Failure {
    Failure::unmet(format!("image {image} is used by container {container}"))
}

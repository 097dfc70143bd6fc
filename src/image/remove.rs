//! Removing an image with all its names, in an order that never leaves a used image nameless.

use tracing::info;

use super::{error::ImageError, images::Images};
use crate::{
    engine::error::{ConflictReason, EngineError},
    model::{
        id::ImageId,
        record::ImageRecord,
        reference::{ImageReference, names_id},
    },
};

impl Images {
    /// The id of the image that `name` means to the engine; none when there is none.
    ///
    /// The engine takes a short name for the beginning of an id as well: an answer counts only
    /// when the image really bears the name.
    pub(super) async fn resolve(&self, name: &str) -> Result<Option<ImageId>, ImageError> {
        match self.engine.inspect_image(name).await {
            Ok(record) => Ok(bears(&record, name).then_some(record.id)),
            Err(error) if error.is_not_found() => Ok(None),
            // A name the engine cannot even read belongs to no image.
            Err(EngineError::Rejected { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes until the engine does not know the image, then shows that in the store.
    pub(super) async fn remove_now(&self, id: &ImageId) -> Result<(), ImageError> {
        // The engine lets go of an image that it mounts somewhere when it is asked by id.
        if let Some(user) = self.store.snapshot().mounting(id).next() {
            return Err(ImageError::InUse { image: id.clone(), container: user.id.to_string() });
        }
        for _ in 0..ATTEMPTS {
            let record = match self.engine.inspect_image(id.as_str()).await {
                Ok(record) => record,
                Err(error) if error.is_not_found() => return self.show_removed(id).await,
                Err(error) => return Err(error.into()),
            };
            if self.remove_record(&record).await? == Remains::AsParent {
                return self.show_removed(id).await;
            }
        }
        Err(ImageError::Remains { id: id.clone(), attempts: ATTEMPTS })
    }

    /// The image itself comes first, because that fails cleanly, with all names kept, when a
    /// container uses it. Only an image with several names has to lose them one by one.
    async fn remove_record(&self, record: &ImageRecord) -> Result<Remains, ImageError> {
        let error = match self.remove_name(record.id.as_str()).await {
            Ok(()) => return Ok(Remains::Nothing),
            Err(error) => error,
        };
        if error.is_conflict(ConflictReason::ImageHasNames) {
            self.remove_names(record).await?;
            Ok(Remains::Unknown)
        } else if error.is_conflict(ConflictReason::ImageHasChildren) {
            // Nameless it is a mere part of its children, which nothing lists.
            self.remove_names(record).await?;
            Ok(Remains::AsParent)
        } else {
            Err(error.into())
        }
    }

    /// Takes the names away one by one. The engine refuses only the last one of a used image,
    /// so the refusal comes from here, before the first.
    async fn remove_names(&self, record: &ImageRecord) -> Result<(), ImageError> {
        let users = self.engine.containers_of_image(&record.id).await?;
        if let Some(container) = users.into_iter().next() {
            return Err(ImageError::InUse { image: record.id.clone(), container });
        }
        for name in record.repo_tags.iter().chain(&record.repo_digests) {
            self.remove_name(name).await?;
        }
        Ok(())
    }

    /// Missing is as good as removed.
    async fn remove_name(&self, name: &str) -> Result<(), EngineError> {
        match self.engine.remove_image(name).await {
            Err(error) if error.is_not_found() => Ok(()),
            answer => answer,
        }
    }

    /// The engine knows no such name. Somebody may have taken it away this very moment, another
    /// removal among them, so that the store still shows it.
    pub(super) async fn show_missing(&self, name: &str) -> Result<(), ImageError> {
        if let Some(image) = self.store.snapshot().image(name).map(|image| image.id.clone()) {
            self.store.refresh_image(image.as_str()).await?;
        }
        Ok(())
    }

    async fn show_removed(&self, id: &ImageId) -> Result<(), ImageError> {
        self.store.refresh_image(id.as_str()).await?;
        info!(image = %id, "removed");
        Ok(())
    }
}

/// What is left of an image after a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remains {
    /// Probably nothing; the next look says.
    Nothing,
    /// Perhaps the nameless image; the next look says.
    Unknown,
    /// Its layers, as a part of images built on it.
    AsParent,
}

/// Whether an image is what `name` asks for: its id, enough of its id, or one of its names in
/// any spelling.
pub(super) fn bears(record: &ImageRecord, name: &str) -> bool {
    if names_id(name) {
        return record.id.as_str() == name || record.id.hex() == name;
    }
    let hex = name.strip_prefix("sha256:").unwrap_or(name);
    let Ok(wanted) = ImageReference::parse(name).map(ImageReference::with_default_tag) else {
        return is_beginning(record, hex);
    };
    let named = record.repo_tags.iter().chain(&record.repo_digests).any(|name| {
        ImageReference::parse(name).is_ok_and(|own| match wanted.digest() {
            Some(digest) => own.repository() == wanted.repository() && own.digest() == Some(digest),
            None => own == wanted,
        })
    });
    named || is_beginning(record, hex)
}

fn is_beginning(record: &ImageRecord, hex: &str) -> bool {
    hex.len() >= SHORTEST_PREFIX && record.id.hex().starts_with(hex)
}

/// How often to remove an image that somebody names anew each time.
const ATTEMPTS: u32 = 5;
/// Docker's own short form of an id; less is more likely a name.
const SHORTEST_PREFIX: usize = 12;

//! The image reference of a container.

use crate::model::{
    container::ContainerSpec,
    record::ImageRecord,
    reference::{self, ImageReference},
};

/// `repository@digest` of the requested repository, otherwise any, otherwise the image's id.
pub(super) fn reference(spec: &ContainerSpec, image: &ImageRecord) -> String {
    let requested = [&spec.user_image, &spec.image].into_iter().find_map(|text| named(text));
    let digests = &image.repo_digests;
    requested
        .and_then(|requested| digests.iter().find(|text| is_of(text, &requested)))
        .or_else(|| digests.first())
        .cloned()
        .unwrap_or_else(|| image.id.to_string())
}

fn named(text: &str) -> Option<ImageReference> {
    if reference::names_id(text) { None } else { ImageReference::parse(text).ok() }
}

/// Whether `repository@digest` belongs to `requested`.
fn is_of(text: &str, requested: &ImageReference) -> bool {
    ImageReference::parse(text).is_ok_and(|known| {
        known.repository() == requested.repository()
            && requested.digest().is_none_or(|digest| known.digest() == Some(digest))
    })
}

//! Which name of an image a container was made from.

use crate::model::{
    container::ContainerSpec,
    record::ImageRecord,
    reference::{self, ImageReference},
};

/// `repository@digest` of the repository the caller asked for, else any, else the image's id.
pub(super) fn reference(spec: &ContainerSpec, image: &ImageRecord) -> String {
    let wanted = [&spec.user_image, &spec.image].into_iter().find_map(|text| named(text));
    let digests = &image.repo_digests;
    wanted
        .and_then(|wanted| digests.iter().find(|text| is_of(text, &wanted)))
        .or_else(|| digests.first())
        .cloned()
        .unwrap_or_else(|| image.id.to_string())
}

fn named(text: &str) -> Option<ImageReference> {
    if reference::names_id(text) { None } else { ImageReference::parse(text).ok() }
}

/// Whether `repository@digest` is what `wanted` names.
fn is_of(text: &str, wanted: &ImageReference) -> bool {
    ImageReference::parse(text).is_ok_and(|known| {
        known.repository() == wanted.repository()
            && wanted.digest().is_none_or(|digest| known.digest() == Some(digest))
    })
}

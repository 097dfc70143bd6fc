//! Makes the record of an image from its inspect.

use crate::{
    model::{id::ImageId, record::ImageRecord},
    wire::docker::ImageInspect,
};

/// The record of an image. `None` if the engine reports no usable id.
pub fn observe(inspect: &ImageInspect) -> Option<ImageRecord> {
    // The totals of containerd's image store count compressed and unpacked layers, as the engine's list does.
    let totals = inspect.manifests.iter().filter_map(|manifest| manifest.size.get("Total"));
    let on_disk = totals.fold(0, |sum: i64, bytes| sum.saturating_add(*bytes));
    Some(ImageRecord {
        id: ImageId::try_from(inspect.id.as_str()).ok()?,
        repo_tags: tags(&inspect.repo_tags),
        repo_digests: named(&inspect.repo_digests),
        // The size is at least 1, because CRI clients reject a size of 0.
        size: u64::try_from(inspect.size.max(on_disk)).unwrap_or(0).max(1),
        user: inspect.config.user.clone(),
        labels: inspect.config.labels.clone(),
        stop_signal: Some(inspect.config.stop_signal.clone()).filter(|signal| !signal.is_empty()),
        volumes: inspect.config.volumes.keys().cloned().collect(),
        inspected: true,
    })
}

/// The image's names with a tag. Leaves out `name@digest`, which containerd's store also has in `RepoTags`.
fn tags(names: &[String]) -> Vec<String> {
    named(names).into_iter().filter(|name| !name.contains('@')).collect()
}

/// The image's names without Docker's placeholders `<none>`.
fn named(names: &[String]) -> Vec<String> {
    names.iter().filter(|name| !name.is_empty() && !name.contains("<none>")).cloned().collect()
}

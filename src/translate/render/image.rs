//! Renders images and their disk usage as CRI messages.

use std::collections::BTreeMap;

use serde_json::json;

use super::verbose;
use crate::{
    model::{image::FilesystemUsage, record::ImageRecord, time::Nanos},
    wire::cri,
};

/// Renders an image without `spec`: callers expect the same answer for a tag, a digest and an id.
pub fn image(record: &ImageRecord, pinned: bool) -> cri::Image {
    let (uid, username) = user(&record.user);
    cri::Image {
        id: record.id.to_string(),
        repo_tags: record.repo_tags.clone(),
        repo_digests: record.repo_digests.clone(),
        size: record.size.max(1),
        uid: uid.map(|value| cri::Int64Value { value }),
        username,
        spec: None,
        pinned,
    }
}

/// The additional content of a verbose ImageStatus, which has some fields of an OCI image configuration.
pub fn info(record: &ImageRecord) -> BTreeMap<String, String> {
    verbose::info(&json!({
        "labels": record.labels,
        "imageSpec": {
            "config": {
                "User": record.user,
                "Labels": record.labels,
                "StopSignal": record.stop_signal,
            },
        },
    }))
}

/// Renders ImageFsInfo. The answer gives images and writable layers the same mount point, because kubelet would treat
/// two mount points as two disks. The used inodes are those of the whole file system, as kubelet itself counts them.
/// `layers` is the size of running containers' writable layers in bytes. `now` is the time of values without a time.
pub fn filesystem(usage: &FilesystemUsage, layers: u64, now: Nanos) -> cri::ImageFsInfoResponse {
    let measured = if usage.measured_at.is_set() { usage.measured_at } else { now };
    let mountpoint = usage.mountpoint.to_string_lossy();
    let filesystem = |bytes: u64| cri::FilesystemUsage {
        timestamp: measured.0,
        fs_id: Some(cri::FilesystemIdentifier { mountpoint: mountpoint.clone().into_owned() }),
        used_bytes: Some(cri::UInt64Value { value: bytes }),
        inodes_used: usage.inodes.map(|value| cri::UInt64Value { value }),
    };
    cri::ImageFsInfoResponse {
        image_filesystems: vec![filesystem(usage.image_bytes)],
        container_filesystems: vec![filesystem(layers)],
    }
}

/// The user in `user[:group]`: as a number or a name, or unset, for which kubelet assumes root.
fn user(config: &str) -> (Option<i64>, String) {
    let user = config.split_once(':').map_or(config, |(user, _)| user).trim();
    match user.parse() {
        Ok(uid) if uid >= 0 => (Some(uid), String::new()),
        _ => (None, user.to_owned()),
    }
}

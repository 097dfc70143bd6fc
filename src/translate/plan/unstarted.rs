//! A container that is never started. The Engine API can read the files of an image only through a
//! container.

use std::collections::{BTreeSet, HashMap};

use crate::{
    model::{id::ImageId, label, path::parts},
    wire::docker::{ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType},
};

/// A container of `image` with the label `marker`. It does not belong to a pod, whatever labels the image
/// has. `volumes` is `Config.Volumes` of the image, as far as it is known.
pub fn unstarted(image: &ImageId, volumes: &BTreeSet<String>, marker: &str) -> ContainerCreateBody {
    let labels = [(label::TYPE, ""), (marker, "1")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    // The engine refuses two mounts at one path, and any mount at the root.
    let targets = volumes.iter().map(|path| format!("/{}", parts(path).join("/")));
    let targets: BTreeSet<String> = targets.filter(|place| place != "/").collect();
    ContainerCreateBody {
        image: Some(image.to_string()),
        // An image may have no command, but the create needs one.
        entrypoint: Some(vec![NO_COMMAND.to_owned()]),
        labels: Some(HashMap::from(labels)),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            mounts: Some(targets.into_iter().map(tmpfs).collect()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

/// Replaces a volume. For a volume, the engine would copy the image's files during the create, even 50 GB.
/// The container is never started, so nothing is mounted and the image's own files are visible.
fn tmpfs(volume: String) -> Mount {
    Mount { typ: Some(MountType::TMPFS), target: Some(volume), ..Mount::default() }
}

/// A command that cannot run, because it is a directory.
const NO_COMMAND: &str = "/";

#[cfg(test)]
mod tests;

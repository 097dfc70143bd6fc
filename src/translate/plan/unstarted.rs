//! Plans a container that is never started: for reading the files of an image, or for keeping the image in the engine.

use std::collections::{BTreeSet, HashMap};

use crate::{
    model::{id::ImageId, label, path::parts},
    wire::docker::{ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType},
};

/// A container of `image` with the label `marker` and without a pod. `volumes` has the image's volumes.
pub fn unstarted(image: &ImageId, volumes: &BTreeSet<String>, marker: &str) -> ContainerCreateBody {
    let labels = [(label::TYPE, ""), (marker, "1")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    // The engine refuses two mounts at the same path, and any mount at the root.
    let targets = volumes.iter().map(|path| format!("/{}", parts(path).join("/")));
    let targets: BTreeSet<String> = targets.filter(|place| place != "/").collect();
    ContainerCreateBody {
        image: Some(image.to_string()),
        // The engine requires a command for the create, and the image may have none.
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

/// A tmpfs in place of a volume. For a volume, the engine would copy the image's files at this path during the create,
/// even 50 GB. The container is never started, so the tmpfs is not mounted and does not hide the image's files.
fn tmpfs(volume: String) -> Mount {
    Mount { typ: Some(MountType::TMPFS), target: Some(volume), ..Mount::default() }
}

/// A command that no engine can run, because it is a directory.
const NO_COMMAND: &str = "/";

#[cfg(test)]
mod tests;

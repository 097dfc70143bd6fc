//! A container that is never started: the engine shows the inside of an image only through one.

use std::collections::{BTreeSet, HashMap};

use crate::{
    model::{id::ImageId, label, path::parts},
    wire::docker::{ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType},
};

/// A container of `image` that bears `mark`, a label of ours, and is nobody's pod whatever labels
/// the image brings along. `volumes` is `Config.Volumes` of the image, as far as it is known.
pub fn unstarted(image: &ImageId, volumes: &BTreeSet<String>, mark: &str) -> ContainerCreateBody {
    let labels = [(label::TYPE, ""), (mark, "1")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    // The engine refuses two mounts at one place, and any at the root.
    let places = volumes.iter().map(|path| format!("/{}", parts(path).join("/")));
    let places: BTreeSet<String> = places.filter(|place| place != "/").collect();
    ContainerCreateBody {
        image: Some(image.to_string()),
        // An image need not say what to run, a create has to.
        entrypoint: Some(vec![NOTHING.to_owned()]),
        labels: Some(HashMap::from(labels)),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            mounts: Some(places.into_iter().map(in_place_of).collect()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

/// Of a volume: at the create the engine would copy into it what the image has there, be it 50 GB.
/// What never starts has nothing mounted, so that the image's own files are seen.
fn in_place_of(volume: String) -> Mount {
    Mount { typ: Some(MountType::TMPFS), target: Some(volume), ..Mount::default() }
}

/// What would be run: a folder, which cannot.
const NOTHING: &str = "/";

#[cfg(test)]
mod tests;

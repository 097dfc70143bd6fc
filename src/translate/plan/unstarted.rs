//! A container that is never started: the engine shows the inside of an image only through one.

use std::collections::HashMap;

use crate::{
    model::{id::ImageId, label},
    wire::docker::{ContainerCreateBody, HostConfig, HostConfigLogConfig},
};

/// A container of `image` that bears `mark`, a label of ours, and is nobody's pod whatever labels
/// the image brings along.
pub fn unstarted(image: &ImageId, mark: &str) -> ContainerCreateBody {
    let labels = [(label::TYPE, ""), (mark, "1")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    ContainerCreateBody {
        image: Some(image.to_string()),
        // An image need not say what to run, a create has to.
        entrypoint: Some(vec![NOTHING.to_owned()]),
        labels: Some(HashMap::from(labels)),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

/// What would be run: a folder, which cannot.
const NOTHING: &str = "/";

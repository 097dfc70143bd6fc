//! Entries of the engine's lists. An entry has less data than an inspect, but the engine answers a list from an index,
//! while an inspect may have to wait for a busy container.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{InspectHostConfig, InspectMount, InspectNetwork};
use crate::wire::lenient::{labels, lenient};

/// An entry of `GET /containers/json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ContainerSummary {
    #[serde(deserialize_with = "lenient")]
    pub id: String,
    /// The container's names, with a leading slash. Another container uses a name with a second slash in a link.
    #[serde(deserialize_with = "lenient")]
    pub names: Vec<String>,
    #[serde(deserialize_with = "lenient")]
    pub image: String,
    #[serde(rename = "ImageID", deserialize_with = "lenient")]
    pub image_id: String,
    /// Time of the creation in seconds since the Unix epoch.
    #[serde(deserialize_with = "lenient")]
    pub created: i64,
    /// The container's labels and those of its image.
    #[serde(deserialize_with = "labels")]
    pub labels: BTreeMap<String, String>,
    /// `created`, `running`, `paused`, `restarting`, `removing`, `exited`, `dead`, or an unknown word.
    #[serde(deserialize_with = "lenient")]
    pub state: String,
    /// Text for people, such as `Exited (137) 2 minutes ago`. No other field of the entry has the exit code.
    #[serde(deserialize_with = "lenient")]
    pub status: String,
    /// An entry has only the network mode and annotations of the container's host configuration.
    #[serde(deserialize_with = "lenient")]
    pub host_config: InspectHostConfig,
    #[serde(deserialize_with = "lenient")]
    pub network_settings: InspectNetwork,
    #[serde(deserialize_with = "lenient")]
    pub mounts: Vec<InspectMount>,
}

/// An entry of `GET /images/json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageSummary {
    #[serde(deserialize_with = "lenient")]
    pub id: String,
    #[serde(deserialize_with = "lenient")]
    pub repo_tags: Vec<String>,
    #[serde(deserialize_with = "lenient")]
    pub repo_digests: Vec<String>,
    #[serde(deserialize_with = "lenient")]
    pub size: i64,
    #[serde(deserialize_with = "labels")]
    pub labels: BTreeMap<String, String>,
}

//! Entries of the engine's lists: less than an inspect has, but one answer for all, and given
//! from the engine's own index while an inspect may have to wait for a container that is busy.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    InspectHostConfig, InspectMount, InspectNetwork,
    lenient::{labels, lenient},
};

/// An entry of `GET /containers/json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ContainerSummary {
    /// 64 hexadecimal digits.
    #[serde(deserialize_with = "lenient")]
    pub id: String,
    /// The container's name with a leading slash, then the names that links of other containers give it.
    #[serde(deserialize_with = "lenient")]
    pub names: Vec<String>,
    #[serde(deserialize_with = "lenient")]
    pub image: String,
    /// Id of the image it was made from.
    #[serde(rename = "ImageID", deserialize_with = "lenient")]
    pub image_id: String,
    /// Seconds since the epoch.
    #[serde(deserialize_with = "lenient")]
    pub created: i64,
    /// Container labels, merged with the image's.
    #[serde(deserialize_with = "labels")]
    pub labels: BTreeMap<String, String>,
    /// `created`, `running`, `paused`, `restarting`, `removing`, `exited`, `dead`, or news.
    #[serde(deserialize_with = "lenient")]
    pub state: String,
    /// For people, such as `Exited (137) 2 minutes ago`: nothing else in a list has the exit code.
    #[serde(deserialize_with = "lenient")]
    pub status: String,
    /// Only the network mode and annotations.
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

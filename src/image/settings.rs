//! The settings for images.

use std::{path::PathBuf, time::Duration};

use crate::model::pinned_images::{CollectImages, PinnedImages};

/// The settings for images.
#[derive(Clone, Debug, Default)]
pub struct ImageSettings {
    /// Pause image to use instead of the built-in one: a reference, or the id of an image in the engine.
    pub sandbox_image: Option<String>,
    /// How long a pull may make no progress before it fails; several times as long where
    /// the engine shows no figures (see [`super::stall`]); none for no limit.
    pub pull_progress_deadline: Option<Duration>,
    /// Docker client configuration with the credentials for the pause image's registry; read
    /// when the image is pulled.
    pub registry_config: Option<PathBuf>,
    /// Images that kubelet must not remove.
    pub pins: PinnedImages,
    /// Which images kubelet may remove.
    pub collect: CollectImages,
}

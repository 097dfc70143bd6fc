//! The settings for images.

use std::time::Duration;

use crate::config::live::LiveSettings;

/// The settings for images.
#[derive(Clone, Debug, Default)]
pub struct ImageSettings {
    /// Pause image to use instead of the built-in one: a reference, or the id of an image in the engine.
    pub sandbox_image: Option<String>,
    /// How long a pull may make no progress before it fails. Several times as long when the engine shows no
    /// byte counts (see [`super::stall`]). None for no limit.
    pub pull_progress_deadline: Option<Duration>,
    /// Which images kubelet may remove, and the credentials for the pause image's registry.
    pub live: LiveSettings,
}

//! What the operator decides about images.

use std::{path::PathBuf, time::Duration};

/// What the operator decides about images.
#[derive(Clone, Debug, Default)]
pub struct ImageSettings {
    /// Pause image to use instead of the built-in one: a reference, or an id that is there.
    pub sandbox_image: Option<String>,
    /// How long a download may be silent before the pull is given up; none for no limit.
    /// Unpacking never counts.
    pub pull_stall: Option<Duration>,
    /// Docker client configuration with the credentials for the pause image's registry; read
    /// when the image is pulled.
    pub registry_config: Option<PathBuf>,
}

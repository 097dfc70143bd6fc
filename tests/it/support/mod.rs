//! Code that the tests in `tests/it` share.

use dockbridge::config::{resolve::resolve, settings::Settings};

pub(crate) mod bridge;
pub(crate) mod clock;
pub(crate) mod containers;
pub(crate) mod fake_dockerd;
pub(crate) mod nri_plugin;
pub(crate) mod old_client;
pub(crate) mod subscribers;

/// The settings without a configuration file, variables or flags.
pub(crate) fn default_settings() -> Settings {
    resolve(Vec::new(), None, &|_| None).unwrap().settings
}

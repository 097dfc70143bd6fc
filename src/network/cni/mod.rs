//! The part of a container runtime in the Container Network Interface, versions 0.1.0 to 1.1.0.
//!
//! [`config`] parses one configuration, [`config_directory`] selects a configuration of a directory,
//! [`plugin`] runs one plugin once, [`chain`] runs all plugins of a configuration, [`result`] parses
//! their results, and [`cache`] stores them in libcni's layout.

pub mod cache;
pub mod chain;
pub mod config;
pub mod config_directory;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod metrics;
pub mod plugin;
pub mod plugin_error;
pub mod result;
pub mod version;

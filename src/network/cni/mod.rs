//! The runtime's side of the Container Network Interface, versions 0.1.0 to 1.1.0.
//!
//! [`config`] parses a configuration, [`config_directory`] selects one of a directory, [`plugin`] runs a plugin,
//! [`chain`] runs all plugins of a configuration, [`result`] parses results, and [`cache`] stores them as libcni does.

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

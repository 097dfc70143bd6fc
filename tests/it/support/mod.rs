//! Support for these tests.

pub(crate) mod bridge;
pub(crate) mod clock;
pub(crate) mod containers;
pub(crate) mod fake_dockerd;
pub(crate) mod nri_plugin;
pub(crate) mod old_client;
pub(crate) mod subscribers;

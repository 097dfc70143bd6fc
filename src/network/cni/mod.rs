//! The Container Network Interface, runtime side, specification 0.1.0 to 1.1.0.
//!
//! [`config`] reads one configuration, [`directory`] chooses one of many, [`exec`] runs one
//! plugin once, [`chain`] runs a configuration's plugins in order, [`result`] reads what they
//! answer, and [`cache`] keeps it where other runtimes would look for it.

pub mod cache;
pub mod chain;
pub mod config;
pub mod directory;
pub mod exec;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod meters;
pub mod result;
pub mod version;

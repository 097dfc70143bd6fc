//! The settings in force: read from flags, environment and file, checked once, each with its source.
//!
//! It does not know who uses a setting. Start with [`key::Key`]: its table has the name, default and
//! cri-dockerd flag of every setting. [`resolve::resolve`] lays [`raw::RawValue`]s over each other
//! and parses them into [`settings::Settings`].
//!
//! To add a setting: a row in [`key`], a field in [`settings::Settings`], a row in
//! `docs/configuration.md`. Flag, variable and file key follow.

pub mod error;
pub mod file;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod key;
pub mod print;
pub mod raw;
pub mod resolve;
pub mod settings;
pub mod value;

#[cfg(test)]
mod tests;

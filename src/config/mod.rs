//! The settings: read from flags, environment variables and file, and checked, with their sources.
//!
//! This module does not know which module uses a setting. Start with [`key::Key`]: its table has the name and default
//! of every setting, and cri-dockerd's flag if that has another name. [`resolve::resolve`] picks one
//! [`raw::RawValue`] for each setting by precedence and parses the values into [`settings::Settings`].
//!
//! At a reload, [`source::ConfigSource`] resolves the settings again, [`diff`] finds what has changed, and
//! [`live::LiveSettings`] gets the new values.
//!
//! To add a setting, add a row in [`key`], a field in [`settings::Settings`] and a row in
//! `docs/configuration.md`. The setting's flag, variable and file key come from its row in [`key`].

pub mod diff;
pub mod environment_file;
pub mod error;
pub mod file;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod key;
pub mod live;
pub mod print;
pub mod raw;
pub mod redact;
pub mod resolve;
pub mod settings;
pub mod source;
pub mod value;

#[cfg(test)]
mod tests;

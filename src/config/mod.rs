//! The settings: read from flags, environment variables and file, checked once, each with its source.
//!
//! It does not know which module uses a setting. Start with [`key::Key`]: its table has the name,
//! default and cri-dockerd flag of every setting. [`resolve::resolve`] picks one [`raw::RawValue`]
//! for each setting by precedence and parses them into [`settings::Settings`].
//!
//! While the program runs, [`source::ConfigSource`] resolves them again, [`diff`] says what has changed,
//! and [`live::LiveSettings`] holds those that other modules read at each use.
//!
//! To add a setting: a row in [`key`], a field in [`settings::Settings`], a row in
//! `docs/configuration.md`. Flag, variable and file key follow.

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

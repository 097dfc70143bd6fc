//! The settings: read from flags, environment variables and file, and checked, with their sources.
//!
//! This module does not know which module uses a setting. Start with [`key::Key`]: its table has the name,
//! default and cri-dockerd flag of every setting. [`resolve::resolve`] picks one [`raw::RawValue`] for each
//! setting by precedence and parses the values into [`settings::Settings`].
//!
//! While the program runs, [`source::ConfigSource`] resolves the settings again, [`diff`] finds what has
//! changed, and [`live::LiveSettings`] has the current values. Other modules read a value there each time that
//! they use it.
//!
//! To add a setting, add a row in [`key`], a field in [`settings::Settings`] and a row in
//! `docs/configuration.md`. The flag, variable and file key come from the row in [`key`].

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

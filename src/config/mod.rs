//! The settings in force: gathered from flags, environment and file, checked once, and each one
//! remembering where it came from.
//!
//! Two steps. `cli` hands over the *low* form, texts exactly as typed; [`resolve`] lays them over
//! the environment, the file and the defaults and returns the *high* form, [`settings::Settings`],
//! in which every value is parsed and nothing is optional that has a default.
//!
//! Adding a setting: one variant in [`key::Key`] (its name is flag, variable and file key), one
//! field in [`settings::Settings`], one line in its constructor, one flag in `cli`.

pub mod error;
pub mod file;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod key;
pub mod print;
pub mod resolve;
pub mod settings;
pub mod value;

#[cfg(test)]
mod tests;

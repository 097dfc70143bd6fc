//! The command line: its flags, cri-dockerd's flags, and the command they select.
//!
//! It does not know what a setting means or whether a value is valid. Start with
//! [`command_line::Invocation`], whose flags come from the table in `config::key`. [`execute::execute`] runs
//! the command.

pub mod command_line;
pub mod execute;
pub mod service;

#[cfg(test)]
mod tests;

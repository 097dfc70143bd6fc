//! The command line: dockbridge's flags, cri-dockerd's flags, and the commands.
//!
//! This module does not check the values of settings. Start with [`command_line::Invocation`], whose flags
//! come from the table in `config::key`. [`execute::execute`] runs the command.

pub mod command_line;
pub mod execute;
pub mod service;

#[cfg(test)]
mod tests;

//! `dockbridge setup`: registers `dockbridge-runtime` among the engine's OCI runtimes.
//!
//! [`daemon_json`] changes the text of `daemon.json`, and in it only our entry. [`command`] finds dockerd
//! and its file, shows the change and writes it. [`reading`] parses dockerd's command line and makes it read
//! the file.

pub mod command;
pub mod daemon_json;
pub mod error;
pub mod reading;

#[cfg(test)]
mod tests;

//! `dockbridge setup`: registers `dockbridge-runtime` among the engine's OCI runtimes.
//!
//! [`daemon_json`] changes dockbridge-runtime's entry in `daemon.json`. [`command`] finds dockerd and its file, shows
//! the change and writes it. [`reading`] parses dockerd's command line and makes dockerd read the file.

pub mod command;
pub mod daemon_json;
pub mod error;
pub mod reading;

#[cfg(test)]
mod tests;

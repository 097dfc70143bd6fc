//! `dockbridge setup`: registers `dockbridge-runtime` among the engine's OCI runtimes.
//!
//! [`daemon_json`] changes the text of `daemon.json`, and in it only our entry. [`dockerd`] parses
//! dockerd's command line. Both are pure. [`command`] finds dockerd and its file, shows the change, writes
//! it, and makes the engine read it.

pub mod command;
pub mod daemon_json;
pub mod dockerd;
pub mod error;

mod difference;
mod reading;

#[cfg(test)]
mod tests;

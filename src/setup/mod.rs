//! `dockbridge setup`: registers `dockbridge-runtime` among the engine's OCI runtimes.
//!
//! [`daemon_json`] changes the text of `daemon.json` and nothing in it but our entry; [`dockerd`] reads
//! the daemon's command line; both are pure. [`command`] finds the daemon and its file, shows the
//! change, writes it, and has the engine read it.

pub mod command;
pub mod daemon_json;
pub mod dockerd;
pub mod error;

mod difference;
mod reading;

#[cfg(test)]
mod tests;

//! `dockbridge check`: checks whether this host is ready for pods. With `--pod`, also runs a pod as a test.
//!
//! [`command`] runs the command. [`host`] examines the host and returns [`finding::Findings`]. Most other
//! files check one or a few [`subject`]s, if possible from facts that they get as values. [`pod`] is a CRI
//! client that starts and removes one pod and times each step. [`takeover`] and `upgrade` report what would
//! happen to the existing pods. [`alive`] checks whether a server answers on the CRI socket.

pub mod alive;
pub mod command;
pub mod engine;
pub mod finding;
pub mod host;
pub mod pod;
pub mod subject;
pub mod takeover;

mod capability;
mod checkpoints;
mod client;
mod cni;
mod kubelet;
mod node;
mod paths;
mod plugins;
mod registries;
mod runtimes;
mod server;
mod upgrade;

#[cfg(test)]
mod tests;

//! `dockbridge check`: checks whether this host is ready for pods, and runs one to prove it.
//!
//! [`command`] runs it. [`host`] checks everything and returns [`finding::Findings`]; each file beside
//! it checks one [`subject`] or a few, from facts given as values wherever it can. [`pod`] is a CRI
//! client that takes one pod up and down and times each step; [`takeover`] tells what would become
//! of the pods that are there; [`alive`] asks whether anybody is there.

pub mod alive;
pub mod command;
pub mod engine;
pub mod finding;
pub mod host;
pub mod pod;
pub mod subject;
pub mod takeover;

mod capability;
mod client;
mod cni;
mod kubelet;
mod node;
mod paths;
mod plugins;
mod registries;
mod runtimes;
mod server;

#[cfg(test)]
mod tests;

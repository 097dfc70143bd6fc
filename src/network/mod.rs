//! Connects a network namespace to the pod network, and disconnects it.
//!
//! It does not know Docker, and of a pod only its name, namespace path and ports. Start with
//! [`service::Network`]: prepare, attach, detach, recall, collect garbage, status. [`cni`] runs the
//! plugins; `config_watcher` keeps [`config_state::ConfigState`] up to date with the configuration
//! directory; [`arguments`] makes the plugins' arguments of a pod; `gc` finds what a lost pod left.
//!
//! Nothing falls back: a node without a usable configuration connects no pod and reports why.

pub mod arguments;
pub mod cni;
pub mod config_state;
pub mod error;
pub mod quantity;
pub mod service;

mod config_watcher;
mod gc;

#[cfg(test)]
mod fixture;

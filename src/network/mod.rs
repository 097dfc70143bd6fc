//! Connects pods to the network with CNI plugins, and disconnects them.
//!
//! It does not know Docker, and of a pod only its name, namespace path and ports. Start with
//! [`service::Network`]: prepare, attach (ADD), detach (DEL), gc, status. [`cni`] runs the
//! plugins; `config_watcher` keeps [`config_state::ConfigState`] up to date with the configuration
//! directory; [`arguments`] makes `CNI_ARGS` and `runtimeConfig`, [`quantity`] parses bandwidths for
//! it; `lost_pods` releases attachments of pods that are gone, which `gc` finds.
//!
//! There is no fallback: a node without a usable configuration connects no pod and reports why.

pub mod arguments;
pub mod cni;
pub mod config_state;
pub mod error;
pub mod quantity;
pub mod service;

mod config_watcher;
mod gc;
mod lost_pods;

#[cfg(test)]
mod fixture;

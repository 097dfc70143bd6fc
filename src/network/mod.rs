//! Connects pods to the network with CNI plugins, and disconnects pods.
//!
//! This module does not call Docker: its callers describe pods as `PodNetwork`. Start with [`service::Network`]:
//! prepare, attach (ADD), detach (DEL), status. [`cni`] runs the plugins. `config_watcher` updates
//! [`config_state::ConfigState`] from the configuration directory. [`arguments`] makes `CNI_ARGS` and `runtimeConfig`,
//! with [`quantity`] for bandwidths. `stale` and `lost_pods` find and release the attachments of pods that are gone.
//!
//! Without a usable CNI configuration, this module connects no pod, and reports why.

pub mod arguments;
pub mod cni;
pub mod config_state;
pub mod quantity;
pub mod service;

mod config_watcher;
mod lost_pods;
mod stale;

#[cfg(test)]
mod fixture;

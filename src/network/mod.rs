//! Connects pods to the network with CNI plugins, and disconnects them.
//!
//! The module does not know Docker. Of a pod it knows only the name, namespace path and ports. Start with
//! [`service::Network`]: prepare, attach (ADD), detach (DEL), status. [`cni`] runs the plugins.
//! `config_watcher` updates [`config_state::ConfigState`] from the configuration directory. [`arguments`]
//! makes `CNI_ARGS` and `runtimeConfig`, and uses [`quantity`] to parse bandwidths. `lost_pods` releases
//! attachments of pods that are gone, which `stale` finds.
//!
//! There is no fallback. A node without a usable configuration connects no pod and reports why.

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

//! Code that stories and measurements share.

pub(crate) mod bridge;
pub(crate) mod channel;
pub(crate) mod cri;
pub(crate) mod cri_log;
pub(crate) mod engine;
pub(crate) mod failure;
pub(crate) mod forwarding;
pub(crate) mod http;
pub(crate) mod inside;
pub(crate) mod kernel;
#[path = "../../known_faults/mod.rs"]
mod known_faults;
pub(crate) mod leftovers;
pub(crate) mod mass;
pub(crate) mod patience;
pub(crate) mod pod;
pub(crate) mod portions;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod random;
pub(crate) mod registry;
pub(crate) mod remote;
pub(crate) mod samples;
pub(crate) mod slow_proxy;
pub(crate) mod spdy;
pub(crate) mod stage;
pub(crate) mod stated;
pub(crate) mod upgrade;
pub(crate) mod websocket;
pub(crate) mod world;

//! Pods: run, stop, remove, resize, recovery after a crash, and adoption of the pods of cri-dockerd or
//! dockershim. The module does not know gRPC.
//!
//! A sandbox is a pause container whose network namespace is pinned and connected. Connecting is the last
//! step, so an interrupted sandbox is never ready. Its resources are released by [`undo::Undo`], or after a
//! crash with the help of the checkpoint.
//!
//! Start with [`service::Sandboxes`] and [`run`].

pub mod adopt;
mod make_namespaces;
pub mod network_namespace_pin;
pub mod pod_network;
pub mod recover;
pub mod remove;
pub mod resize;
pub mod restore;
pub mod run;
pub mod service;
pub mod stop;
pub mod undo;

#[cfg(test)]
mod tests;

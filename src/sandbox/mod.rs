//! Pods: run, stop, remove, resize, recovery after a crash, and adoption. This module does not know gRPC.
//!
//! A sandbox is a pause container. With CNI, the sandbox's network namespace is pinned and connected, and the sandbox
//! is not ready before the result of CNI ADD is stored. [`undo::Undo`] releases the resources of a failed sandbox.
//! After a crash, a stop or a removal releases an unfinished sandbox's network, with data from the checkpoint file.
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

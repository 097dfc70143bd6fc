//! Pods: run, stop, remove, resize; recovery after a crash and adoption of pods that others made. It
//! does not know gRPC.
//!
//! A sandbox is a pause container whose network namespace is pinned and connected. Connecting
//! is the last step, so a sandbox whose creation was interrupted is never ready, and whatever
//! was acquired is known to [`undo::Undo`] while we live, and to the checkpoint after a crash.
//!
//! Start at [`service::Sandboxes`] and [`run`].

pub mod adopt;
pub mod error;
pub mod namespace;
mod pod_network;
pub mod recover;
pub mod remove;
pub mod resize;
pub mod run;
pub mod service;
pub mod stop;
pub mod undo;

#[cfg(test)]
mod tests;

//! NRI, the Node Resource Interface: plugins that are told of pods and containers, and may change them.
//!
//! ```text
//! plugin ◀─socket─▶ connection (mux, ttrpc) ─▶ session: register, configure, synchronise, updates
//!                                                  │
//! sandbox | container ──▶ calls, in the order of the plugins' indices ──▶ merged answer
//! store ──▶ follower: containers that end or vanish by themselves
//! ```
//!
//! One event is told at a time, so that plugins see one order. A plugin that fails is dropped, and
//! may come back. Start at [`service::Nri`]; without a connected plugin every call returns at once.

mod admission;
pub mod calls;
mod connection;
pub mod creation;
pub mod error;
mod follower;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod hooks;
pub(crate) mod launcher;
mod listener;
pub mod metrics;
mod mux;
mod plugin;
pub mod service;
mod session;
mod told;
mod ttrpc;

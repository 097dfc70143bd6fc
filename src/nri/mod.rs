//! NRI, the Node Resource Interface: plugins that receive events of pods and containers and may change containers.
//!
//! ```text
//! plugin ◀─socket─▶ connection (mux, ttrpc) ─▶ session: register, configure, synchronise, requests
//!                                                  │
//! sandbox | container ──▶ events, in the order of the plugins' indices ──▶ merged answer
//! store ──▶ follower: containers that end or are removed without a CRI call
//! ```
//!
//! dockbridge sends one event at a time, so all plugins see the same order. A plugin that does not answer or
//! violates the protocol is disconnected and may connect again. Without a plugin, no event delays a call.

mod connection;
mod container_updates;
mod create_container;
pub mod creation;
mod events;
mod follower;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub(crate) mod launcher;
mod lifecycle;
mod listener;
pub mod metrics;
mod mux;
mod plugin;
pub mod service;
mod session;
mod ttrpc;

//! dockbridge: the Container Runtime Interface served by a Docker Engine.

pub mod admin;
pub mod app;
pub mod cdi;
pub mod check;
pub mod checkpoint;
pub mod cli;
pub mod concurrency;
pub mod config;
pub mod container;
pub mod engine;
pub mod error;
pub mod exec;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod host;
pub mod image;
pub mod logs;
pub mod model;
pub mod network;
pub mod pause;
pub mod rootfs;
pub mod rpc;
pub mod sandbox;
pub mod stats;
pub mod store;
pub mod streaming;
pub mod telemetry;
pub mod translate;
pub mod wire;

#[cfg(test)]
#[path = "../tests/skips/mod.rs"]
mod skips;

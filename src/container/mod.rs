//! Containers of pods: create, start, stop, remove, ExecSync, limits. This module does not know gRPC.
//!
//! CreateContainer gathers facts ([`gather`]), builds the engine's request with `translate::plan`, and sends
//! it. The calls are idempotent if CRI requires that.
//!
//! Start with [`service::Containers`] and [`create`].

pub mod create;
pub mod dump;
pub mod exec_output;
pub mod exec_sync;
pub mod gather;
pub mod limits;
pub mod metrics;
pub mod name_conflict;
pub mod node;
pub mod oci_runtime_files;
pub mod plugins;
pub mod pod_files;
mod relabel;
pub mod remove;
pub mod reopen_log;
mod restore;
pub mod saved_changes;
pub mod service;
pub mod start;
pub mod start_once;
pub mod stop;
mod unpack;
mod volumes;
mod write_edits;

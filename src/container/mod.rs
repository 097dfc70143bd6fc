//! The container verbs: create, start, stop, remove.
//!
//! Each gathers facts, asks `translate::plan` what to say to the engine, and acts. All of them
//! run as tasks the daemon owns and are idempotent where CRI wants them so.

pub mod create;
pub mod end;
pub mod error;
pub mod exec_sync;
pub mod gather;
pub mod limits;
pub mod metrics;
pub mod name_conflict;
pub mod pod_files;
mod relabel;
pub mod remove;
pub mod reopen_log;
pub mod room;
pub mod start;
pub mod stop;
mod volumes;

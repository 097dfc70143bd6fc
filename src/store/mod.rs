//! What Docker has, in memory: one writer task fed by the engine's events, many readers.
//!
//! ```text
//! Store (handle) ──commands──▶ writer task ──publishes──▶ Snapshot ──▶ every read of CRI
//!                                ▲    ▲
//!   event_stream: ping, info, ───┘    └── inspectors: one inspect per object at a time,
//!   events, lists                         bounded, with a deadline each
//! ```
//!
//! An event or a list only says what to inspect; the state shown is the answer of the latest
//! inspect. So events may be lost, doubled, late or out of order, and after the next list the store
//! equals Docker all the same. It does not know who reads it.
//!
//! Start at [`handle::Store`], what callers have, and [`snapshot::Snapshot`], what they read.
//! [`writer`] is the loop; [`state`], [`objects`] and [`inspect_queue`] decide, without a clock or
//! a socket. [`oom`] decides whether a killed container ran out of memory. [`changes`] turns two
//! snapshots into container events, and [`pending_changes`] holds them until their pod is inspected.

pub mod changes;
pub mod engine_call;
pub mod error;
pub mod handle;
pub mod hooks;
pub mod metrics;
pub mod oom;
pub mod pending_changes;
pub mod settings;
pub mod snapshot;

mod command;
mod event_stream;
mod hidden_containers;
mod index;
mod inspect_queue;
mod inspector;
mod metric_families;
mod objects;
mod publisher;
mod signal;
mod state;
mod update_delay;
mod writer;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

//! The copy of Docker's state in memory: one writer task that follows the engine's events, many readers.
//!
//! ```text
//! Store (handle) ──commands──▶ writer task ──publishes──▶ Snapshot ──▶ reads of CRI
//!                                ▲    ▲
//!   event_stream: ping, info, ───┘    └── inspectors: one inspect per object at a time,
//!   events, lists                         limited unless a caller waits, with a deadline each
//! ```
//!
//! Docker's events and lists say what to inspect, and the latest inspect counts. So events may be lost, repeated, late
//! or out of order. After the next list and its inspects, the store agrees with Docker again.
//!
//! Start with [`handle::Store`], which callers have, and [`snapshot::Snapshot`], which they read. [`writer`] has the
//! writer's loop. [`state`], [`objects`] and [`inspect_queue`] make the writer's decisions, without a clock or a
//! socket. [`oom`] decides whether a killed container ran out of memory. [`changes`] turns two snapshots into container
//! events. [`pending_changes`] holds an event until its pod's containers are inspected, for at most ten seconds.

pub mod changes;
pub mod engine_call;
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
mod state;
mod writer;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

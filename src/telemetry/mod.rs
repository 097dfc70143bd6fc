//! Observability of the process: log, notifications to systemd, traces, metrics, and operations in progress.

#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod in_progress;
pub mod log;
pub mod metric;
pub mod operation;
pub mod otlp;
pub mod registry;
pub mod signal;
pub mod systemd;
pub mod trace;

#[cfg(test)]
mod tests;

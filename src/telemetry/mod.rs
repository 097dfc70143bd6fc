//! What is seen of a running dockbridge from outside: the log, signs of life for systemd, spans
//! for a collector of traces, what is counted and timed, and what is under way.

pub mod errand;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod log;
pub mod meter;
pub mod otlp;
pub mod registry;
pub mod signal;
pub mod systemd;
pub mod trace;
pub mod underway;

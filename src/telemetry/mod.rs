//! What the operator sees of a running dockbridge: the log, what is counted and timed, and what
//! is under way.

pub mod log;
pub mod meter;
pub mod registry;
pub mod signal;
pub mod underway;

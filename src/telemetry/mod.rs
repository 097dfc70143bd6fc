//! What the operator sees of a running dockbridge: the log.

pub mod log;
pub mod signal;

//! An engine that takes long to answer for single containers, never does, or fails.

pub(crate) mod others;

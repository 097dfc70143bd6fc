//! Tracing set-up.

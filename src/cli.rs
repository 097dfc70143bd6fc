//! Flags exactly as typed.

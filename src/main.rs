//! Parses flags, starts, waits for a signal, drains.

fn main() {}

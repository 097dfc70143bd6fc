//! What is true now: one writer fed by the engine's events, many readers.

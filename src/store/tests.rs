//! The store against a scripted engine.

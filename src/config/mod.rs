//! Resolved settings, checked once, each with the place it came from.

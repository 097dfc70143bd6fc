//! Wiring: config, rooms bottom-up, spawn, drain.

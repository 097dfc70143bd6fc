//! The endpoints for operators: metrics, health, and the state for debugging.
//!
//! A small HTTP server on a unix socket for root, and on a TCP address, where one is set, with
//! metrics and health alone. Nothing here changes anything but the log and, by a reload, live settings;
//! nothing it shows is a secret: no environment, no command lines, no annotations, no tokens.

pub mod client;
pub mod context;
pub mod endpoints;
pub mod handler;
pub mod health;
pub mod process;
pub mod server;
pub mod state;

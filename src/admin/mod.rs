//! The endpoints for operators: metrics, health, and the state for debugging.
//!
//! A small HTTP server on a unix socket for root. If a TCP address is set, it serves only metrics and
//! health there. It changes nothing except, by a reload, live settings. It shows no secrets: no
//! environment, command lines, annotations or tokens.

pub mod client;
pub mod context;
pub mod endpoints;
pub mod handler;
pub mod process;
pub mod server;
pub mod state;

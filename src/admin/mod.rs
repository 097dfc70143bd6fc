//! The endpoints for operators: metrics, health, the state for debugging, and reloads of the settings.
//!
//! A small HTTP server on a unix socket for root. If a TCP address is set, the server offers only `/metrics`,
//! `/healthz` and `/readyz` at that address. A reload is the only request that changes anything: the settings that
//! need no restart.

pub mod client;
pub mod context;
pub mod endpoints;
pub mod handler;
pub mod process;
pub mod server;
pub mod state;

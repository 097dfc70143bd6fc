//! A fake dockerd: a real HTTP server on a temporary unix socket with a small model of containers, images and
//! events. Tests can inject faults.
//!
//! ```ignore
//! let docker = FakeDockerd::start().await;
//! docker.world(|world| world.add_image("busybox:1.36"));
//! docker.inject(Rule::new("POST /containers/*/start", Fault::Status(500, "boom".into())).times(1));
//! // … run the code under test with docker.socket() …
//! assert_eq!(docker.count("POST /containers/*/start"), 2);
//! ```
//!
//! Patterns of calls are `METHOD /path`, without version prefix and query. `*` stands for one or more characters.

#![allow(dead_code, reason = "offers what stories need, whether or not one needs it today")]

pub(crate) mod exec;
pub(crate) mod fault;
pub(crate) mod server;
pub(crate) mod world;

mod routes;
mod wire;

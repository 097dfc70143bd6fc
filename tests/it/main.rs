//! Tests of several modules together. The tests in `tests/it` are one binary, because linking a test binary takes
//! longer than running it.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test fails by panicking, and says aloud what it skips"
)]

mod app;
#[path = "../clock/mod.rs"]
mod clock;
mod container;
mod dumps;
mod engine;
mod image;
#[path = "../known_faults/mod.rs"]
mod known_faults;
mod oci_runtime;
mod resources;
mod sandbox;
mod server;
#[path = "../skips/mod.rs"]
mod skips;
mod socket_activation;
mod starts;
mod store;
mod support;

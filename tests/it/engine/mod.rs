//! The engine client with the fake dockerd: its requests, and its errors when a daemon fails. `real` tests
//! the client with a real engine.

mod calls;
mod faults;
mod hijack;
mod pulls;
mod real;
mod recorded;
mod streams;
mod versions;

use dockbridge::engine::client::{Engine, Timeouts};

use crate::support::{bridge::TIMEOUT, fake_dockerd::server::FakeDockerd};

/// Tests that wait for one of these timeouts move the clock forward.
const TIMEOUTS: Timeouts =
    Timeouts { ping: TIMEOUT, short: TIMEOUT, stop_margin: TIMEOUT, stream: TIMEOUT };

fn engine(docker: &FakeDockerd) -> Engine {
    Engine::new(docker.socket().to_owned(), TIMEOUTS)
}

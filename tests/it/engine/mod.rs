//! The engine client against the fake dockerd: its requests, and its errors for every failure of a
//! daemon.

mod calls;
mod faults;
mod hijack;
mod pulls;
mod real;
mod streams;
mod versions;

use std::time::Duration;

use dockbridge::engine::client::{Engine, Timeouts};

use crate::support::fake_dockerd::server::FakeDockerd;

/// Short enough for tests that wait for a deadline, long enough for a busy machine.
const TIMEOUT: Timeouts = Timeouts {
    ping: Duration::from_millis(1500),
    short: Duration::from_millis(1500),
    stop_margin: Duration::from_millis(1500),
    stream: Duration::from_millis(1500),
};

fn engine(docker: &FakeDockerd) -> Engine {
    Engine::new(docker.socket().to_owned(), TIMEOUT)
}

//! A call to the engine whose effect the store must show to the caller.

use crate::{
    host::clock,
    model::{engine::Transition, time::Nanos},
};

/// A call that makes the engine create or start a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineCall {
    pub(super) transition: Transition,
    /// When the call began, on the host's clock, which the engine's events also use. An event about the same transition
    /// of the same container with this time or a later one belongs to this call, or to a concurrent or later call. If
    /// the container has ended since, its `die` event causes another inspect.
    pub(super) begun_at: Nanos,
}

impl EngineCall {
    /// Records the start of the call. Must be called directly before the call to the engine.
    pub fn begin(transition: Transition) -> Self {
        Self { transition, begun_at: Nanos(clock::nanos()) }
    }
}

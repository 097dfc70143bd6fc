//! A call to the engine whose effect the store has to show.

use crate::{
    host::clock,
    model::{engine::Transition, time::Nanos},
};

/// A call that makes the engine create or start a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineCall {
    pub(super) transition: Transition,
    /// When it began. The engine's events use the same clock, the host's. An event that is not older
    /// belongs to this call, or to a concurrent call of another client. If the container ended in between,
    /// its `die` event causes another inspect.
    pub(super) begun_at: Nanos,
}

impl EngineCall {
    /// Must be called just before the call to the engine.
    pub fn begin(transition: Transition) -> Self {
        Self { transition, begun_at: Nanos(clock::nanos()) }
    }
}

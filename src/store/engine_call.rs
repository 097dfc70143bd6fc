//! A call that the store is asked to show the effect of.

use crate::{
    host::clock,
    model::{engine::Transition, time::Nanos},
};

/// A call that has the engine create or start a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineCall {
    pub(super) transition: Transition,
    /// When it began. The engine's events have times of the same clock, that of the host: one that is not
    /// older is of this call, or of somebody else's meanwhile. If the container has ended in between, its
    /// event `die` asks for another inspect.
    pub(super) begun_at: Nanos,
}

impl EngineCall {
    /// To be made just before the call.
    pub fn begin(transition: Transition) -> Self {
        Self { transition, begun_at: Nanos(clock::nanos()) }
    }
}

//! Hooks of other modules: before the store shows a container or the first list, before it uses an engine, and after a
//! removal.
//!
//! With `FallbackToLogsOnError`, kubelet reads the log of a failed container as soon as it sees the end. So the store
//! shows an inspected end only after the module `logs` has completed the log or no longer waits for it. The store shows
//! the pods of the first list only after `first_list` has tried to adopt those without a checkpoint file. If another
//! dockbridge serves the engine, the future of `engine` never ends, so the store does not use this engine.

use std::{fmt, future::ready};

use futures_util::future::{BoxFuture, FutureExt as _};

use crate::{
    checkpoint::record::SandboxCheckpoint,
    model::{
        engine::EngineInfo,
        record::{ContainerRecord, SandboxRecord},
    },
};

/// The hooks of a store, which do nothing by default. The store waits for their futures without a deadline.
pub trait StoreHooks: fmt::Debug + Send + Sync {
    /// Until this future resolves, the store shows the last known state. If the container is new and the future takes
    /// long, the store shows the container without its end.
    fn before_shown(&self, _record: &ContainerRecord) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }

    /// Called when a container is gone, maybe more than once. Must not block.
    fn gone(&self, _id: &str) {}

    /// Receives the pods of the engine's first list, and returns the contents of the checkpoint files of newly adopted
    /// pods. Until this future resolves, the store is not synced.
    fn first_list(
        &self,
        _listed: Vec<SandboxRecord>,
    ) -> BoxFuture<'static, Vec<SandboxCheckpoint>> {
        ready(Vec::new()).boxed()
    }

    /// Receives the engine's answers to `info` before the store uses them. The store uses a newly connected
    /// engine only after this future has ended.
    fn engine(&self, _engine: &EngineInfo) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}

/// No hooks.
#[derive(Debug)]
pub struct NoHooks;

impl StoreHooks for NoHooks {}

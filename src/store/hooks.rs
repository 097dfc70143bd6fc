//! Hooks of other modules: before the store shows a container or pod or uses an engine, and after a removal.
//!
//! With `FallbackToLogsOnError`, kubelet reads the log as soon as it sees a container's end. So the store shows the
//! end only after `logs` reports that the log is complete or that `logs` no longer waits for it. The store shows the
//! pods of the first list only after `first_list` has tried to adopt them. The store does not follow an engine that
//! another server serves.

use std::{fmt, future::ready};

use futures_util::future::{BoxFuture, FutureExt as _};

use crate::{
    checkpoint::record::SandboxCheckpoint,
    model::{
        engine::EngineInfo,
        record::{ContainerRecord, SandboxRecord},
    },
};

/// The hooks of a store, which do nothing by default. The store sets no deadline, so each future must end.
pub trait StoreHooks: fmt::Debug + Send + Sync {
    /// Until this future resolves, the store shows the last known state, or soon a new container without its end.
    fn before_shown(&self, _record: &ContainerRecord) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }

    /// Called when any container is gone, maybe more than once. Must not block.
    fn gone(&self, _id: &str) {}

    /// Receives all pods of the engine's first list before the store shows them, and returns the contents of
    /// the checkpoint files of newly adopted pods. Until this future resolves, the store is not synced.
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

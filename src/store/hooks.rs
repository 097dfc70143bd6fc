//! What other modules do before the store shows something, and after something is gone.
//!
//! kubelet reads a container's log as soon as it sees that the container ended. So an inspected container
//! is shown only after the log module reports that its log is complete. Pods of the first list are adopted
//! before they are shown. If another server serves the engine, the store does not follow it.

use std::{fmt, future::ready};

use futures_util::future::{BoxFuture, FutureExt as _};

use crate::{
    checkpoint::record::SandboxCheckpoint,
    model::{
        engine::EngineInfo,
        record::{ContainerRecord, SandboxRecord},
    },
};

/// The hooks of a store. The default implementations do nothing. The store sets no deadline for them, so
/// each future must end.
pub trait StoreHooks: fmt::Debug + Send + Sync {
    /// The store shows the container after this future has ended, and the last known state until then.
    fn before_shown(&self, _record: &ContainerRecord) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }

    /// A container is gone, whether it belonged to a pod or not. May be called more than once. Must not block.
    fn gone(&self, _id: &str) {}

    /// Receives all pods of the engine's first list before they are shown, and returns checkpoints for
    /// those that had none. Reads wait for this.
    fn first_list(
        &self,
        _listed: Vec<SandboxRecord>,
    ) -> BoxFuture<'static, Vec<SandboxCheckpoint>> {
        ready(Vec::new()).boxed()
    }

    /// The engine has described itself. The store uses the engine after this future has ended. If it never
    /// ends, the store never uses the engine.
    fn engine(&self, _engine: &EngineInfo) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}

/// No hooks.
#[derive(Debug)]
pub struct NoHooks;

impl StoreHooks for NoHooks {}

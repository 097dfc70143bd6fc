//! What other modules do before the store shows something, and when something is gone.
//!
//! A kubelet reads a container's log the moment it sees the container ended, so an inspected
//! container is shown only when whoever writes its log says that the log is complete. Pods of the
//! first list are adopted before anybody sees them. An engine that another server has is not
//! followed.

use std::{fmt, future::ready};

use futures_util::future::{BoxFuture, FutureExt as _};

use crate::{
    checkpoint::record::SandboxCheckpoint,
    model::{
        engine::EngineInfo,
        record::{ContainerRecord, SandboxRecord},
    },
};

/// The hooks of a store. Those that are not implemented do nothing. The store sets their futures no
/// deadline: each must end by itself.
pub trait StoreHooks: fmt::Debug + Send + Sync {
    /// The store shows a container when this future has ended, and the last known state until then.
    fn before_shown(&self, _record: &ContainerRecord) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }

    /// A container is gone, a pod's or not. Called perhaps more than once; must not block.
    fn gone(&self, _id: &str) {}

    /// Gets all pods of the engine's first list before they are shown, and returns checkpoints for those
    /// that had none. Reads wait until then.
    fn first_list(
        &self,
        _listed: Vec<SandboxRecord>,
    ) -> BoxFuture<'static, Vec<SandboxCheckpoint>> {
        ready(Vec::new()).boxed()
    }

    /// The engine has described itself. The store uses it when this future has ended, and not at all if
    /// it never ends.
    fn engine(&self, _engine: &EngineInfo) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}

/// No hooks.
#[derive(Debug)]
pub struct NoHooks;

impl StoreHooks for NoHooks {}

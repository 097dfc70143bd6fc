//! What other modules do before the store shows something, and when something is gone.
//!
//! A kubelet reads a container's log the moment it sees the container ended, so an inspected
//! container is shown only when whoever writes its log says that the log is complete. Pods of the
//! first list are adopted before anybody sees them. An engine that another server has is not
//! followed.

use std::{fmt, sync::Arc};

use futures_util::future::{BoxFuture, FutureExt};

use crate::{
    checkpoint::record::SandboxCheckpoint,
    model::{
        engine::EngineInfo,
        record::{ContainerRecord, SandboxRecord},
    },
};

/// The hooks of a store. Clones call the same functions.
#[derive(Clone)]
pub struct StoreHooks {
    before_shown: Arc<dyn BeforeShown>,
    on_gone: Arc<dyn Fn(&str) + Send + Sync>,
    on_first_list: Arc<dyn OnFirstList>,
    on_engine: Arc<dyn OnEngine>,
}

impl StoreHooks {
    /// Shows a container when the future that `before_shown` returns for it has ended. The store sets
    /// no deadline, and shows the last known state until then: the future must end by itself.
    pub fn new<F>(before_shown: impl Fn(&ContainerRecord) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let before_shown = Arc::new(move |record: &ContainerRecord| before_shown(record).boxed());
        let on_first_list = Arc::new(|_| std::future::ready(Vec::new()).boxed());
        let on_engine = Arc::new(|_: EngineInfo| std::future::ready(()).boxed());
        Self { before_shown, on_gone: Arc::new(|_| {}), on_first_list, on_engine }
    }

    /// None at all.
    pub fn none() -> Self {
        Self::new(|_| std::future::ready(()))
    }

    /// Calls `on_gone` with the id of every container that is found to be gone, a pod's or not,
    /// perhaps more than once. It must not block.
    pub fn on_gone(self, on_gone: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { on_gone: Arc::new(on_gone), ..self }
    }

    /// Calls `adopt` with all pods of the engine's first list, before they are shown; it returns
    /// checkpoints for those that had none. Reads wait meanwhile: the future must end by itself.
    pub fn on_first_list<F>(
        self,
        adopt: impl Fn(Vec<SandboxRecord>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Vec<SandboxCheckpoint>> + Send + 'static,
    {
        Self { on_first_list: Arc::new(move |listed| adopt(listed).boxed()), ..self }
    }

    /// Calls `admit` whenever the engine has described itself, and uses the engine when its future
    /// has ended; one that never ends keeps the store away from the engine.
    pub fn on_engine<F>(self, admit: impl Fn(EngineInfo) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self { on_engine: Arc::new(move |engine: EngineInfo| admit(engine).boxed()), ..self }
    }

    pub(super) async fn before_shown(&self, record: &ContainerRecord) {
        self.before_shown.call(record).await;
    }

    pub(super) fn gone(&self, id: &str) {
        (self.on_gone)(id);
    }

    pub(super) async fn first_list(&self, listed: Vec<SandboxRecord>) -> Vec<SandboxCheckpoint> {
        self.on_first_list.call(listed).await
    }

    pub(super) async fn engine(&self, engine: &EngineInfo) {
        self.on_engine.call(engine.clone()).await;
    }
}

trait BeforeShown: Send + Sync {
    fn call(&self, record: &ContainerRecord) -> BoxFuture<'static, ()>;
}

impl<F> BeforeShown for F
where
    F: Fn(&ContainerRecord) -> BoxFuture<'static, ()> + Send + Sync,
{
    fn call(&self, record: &ContainerRecord) -> BoxFuture<'static, ()> {
        self(record)
    }
}

trait OnFirstList: Send + Sync {
    fn call(&self, listed: Vec<SandboxRecord>) -> BoxFuture<'static, Vec<SandboxCheckpoint>>;
}

impl<F> OnFirstList for F
where
    F: Fn(Vec<SandboxRecord>) -> BoxFuture<'static, Vec<SandboxCheckpoint>> + Send + Sync,
{
    fn call(&self, listed: Vec<SandboxRecord>) -> BoxFuture<'static, Vec<SandboxCheckpoint>> {
        self(listed)
    }
}

trait OnEngine: Send + Sync {
    fn call(&self, engine: EngineInfo) -> BoxFuture<'static, ()>;
}

impl<F> OnEngine for F
where
    F: Fn(EngineInfo) -> BoxFuture<'static, ()> + Send + Sync,
{
    fn call(&self, engine: EngineInfo) -> BoxFuture<'static, ()> {
        self(engine)
    }
}

impl fmt::Debug for StoreHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreHooks").finish_non_exhaustive()
    }
}

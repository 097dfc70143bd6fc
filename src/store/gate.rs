//! What has to be true of a workload, or of a pod found at the start, before its record is shown, and
//! of an engine before anything else is asked of it.
//!
//! A kubelet reads a container's log the moment it sees it ended. So whoever writes the log stands
//! at this gate: a look that saw a container waits here before anybody is told. He is told here,
//! too, of what is gone, whoever removed it. And whoever knows that an engine is another server's
//! stands here: it is not followed then.

use std::{fmt, sync::Arc};

use futures_util::future::{BoxFuture, FutureExt};

use crate::{
    checkpoint::record::SandboxCheckpoint,
    model::{
        engine::EngineInfo,
        record::{ContainerRecord, SandboxRecord},
    },
};

/// Passed by every look that saw a workload. Clones are the same gate.
#[derive(Clone)]
pub struct Gate {
    keeper: Arc<dyn Keeper>,
    gone: Arc<dyn Fn(&str) + Send + Sync>,
    adopter: Arc<dyn Adopter>,
    admission: Arc<dyn Admission>,
}

impl Gate {
    /// A gate that opens for a record when what `opens` returns is done. That must come to an end
    /// by itself: the store sets no deadline, and shows what it knew before for so long.
    pub fn new<F>(opens: impl Fn(&ContainerRecord) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let keeper = Arc::new(move |record: &ContainerRecord| opens(record).boxed());
        let adopter = Arc::new(|_| std::future::ready(Vec::new()).boxed());
        let admission = Arc::new(|_: EngineInfo| std::future::ready(()).boxed());
        Self { keeper, gone: Arc::new(|_| {}), adopter, admission }
    }

    /// Calls `gone` with the id of every container that is found to be gone, a pod's workload or
    /// not, perhaps more than once. It must not wait for anything.
    pub fn telling(self, gone: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { gone: Arc::new(gone), ..self }
    }

    /// Calls `adopt` with all pods of the engine's first list, before anybody is shown them; it
    /// returns the checkpoints of those that had none. Others wait meanwhile: it must come to an end.
    pub fn adopting<F>(
        self,
        adopt: impl Fn(Vec<SandboxRecord>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Vec<SandboxCheckpoint>> + Send + 'static,
    {
        Self { adopter: Arc::new(move |found| adopt(found).boxed()), ..self }
    }

    /// Whenever the engine has described itself, waits for what `admits` returns before it is
    /// followed, or followed on: for ever, where it must not be.
    pub fn admitting<F>(self, admits: impl Fn(EngineInfo) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let admission = Arc::new(move |engine: EngineInfo| admits(engine).boxed());
        Self { admission, ..self }
    }

    /// Always open.
    pub fn open() -> Self {
        Self::new(|_| std::future::ready(()))
    }

    pub(super) async fn adopt(&self, found: Vec<SandboxRecord>) -> Vec<SandboxCheckpoint> {
        self.adopter.adopted(found).await
    }

    pub(super) fn tell_gone(&self, id: &str) {
        (self.gone)(id);
    }

    pub(super) async fn admit(&self, engine: &EngineInfo) {
        self.admission.admitted(engine.clone()).await;
    }

    pub(super) async fn pass(&self, record: &ContainerRecord) {
        self.keeper.opened(record).await;
    }
}

trait Keeper: Send + Sync {
    fn opened(&self, record: &ContainerRecord) -> BoxFuture<'static, ()>;
}

impl<K> Keeper for K
where
    K: Fn(&ContainerRecord) -> BoxFuture<'static, ()> + Send + Sync,
{
    fn opened(&self, record: &ContainerRecord) -> BoxFuture<'static, ()> {
        self(record)
    }
}

trait Adopter: Send + Sync {
    fn adopted(&self, found: Vec<SandboxRecord>) -> BoxFuture<'static, Vec<SandboxCheckpoint>>;
}

impl<A> Adopter for A
where
    A: Fn(Vec<SandboxRecord>) -> BoxFuture<'static, Vec<SandboxCheckpoint>> + Send + Sync,
{
    fn adopted(&self, found: Vec<SandboxRecord>) -> BoxFuture<'static, Vec<SandboxCheckpoint>> {
        self(found)
    }
}

trait Admission: Send + Sync {
    fn admitted(&self, engine: EngineInfo) -> BoxFuture<'static, ()>;
}

impl<A> Admission for A
where
    A: Fn(EngineInfo) -> BoxFuture<'static, ()> + Send + Sync,
{
    fn admitted(&self, engine: EngineInfo) -> BoxFuture<'static, ()> {
        self(engine)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

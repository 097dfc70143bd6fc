//! RunPodSandbox: starts a pause container and, with a CNI network, pins and connects its network namespace.
//!
//! ```text
//! create ─┬─▶ attachment on disk ─┬─▶ CNI ADD ─▶ result on disk ─▶ ready
//!         └─▶ start ─▶ pin ───────┘
//! ```
//!
//! Each step that acquires something pushes an undo. After a crash, the attachment on disk has what DEL needs. With
//! dockbridge-runtime, the namespace is pinned before the start, and CNI ADD may run during the start.

use std::{sync::Arc, time::Duration};

use futures_util::future::OptionFuture;
use rand::Rng;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{pod_network::pod_network, service::Sandboxes, undo::Undo};
use crate::{
    container::{
        gather::{host::check_sandbox, seccomp_profile::seccomp_profile},
        name_conflict::{Resolution, create_named},
        start_once::start_once,
    },
    error::{Failure, Kind, chain},
    host::{file::Durability, processes::Processes},
    model::{
        attachment::{Attachment, CniAttachment},
        engine::Transition,
        id::SandboxId,
        name::sandbox_name,
        network::NetworkMode,
        record::{Observed, Process, SandboxRecord, SandboxState},
        sandbox::{PodMetadata, SandboxSpec},
        time::Nanos,
    },
    network::service::Attached,
    nri::creation::Identity,
    store::{engine_call::EngineCall, settings::SYNC_TIMEOUT},
    translate::plan::{
        self, input::SandboxInput, network_namespace::NetworkNamespace, sandbox::SandboxPlan,
    },
};

impl Sandboxes {
    /// Runs a sandbox and returns its id. A repeated call with the same request returns the same sandbox while the
    /// sandbox is ready. Removes what an earlier failed call has left.
    ///
    /// # Errors
    /// Fails if the request cannot be fulfilled, if this attempt of the pod has a ready sandbox with another
    /// configuration, or if a step fails. Acquired resources are then released, or the error lists those that are not.
    pub async fn run(&self, spec: SandboxSpec) -> Result<SandboxId, Failure> {
        let key = serde_json::to_string(&spec).unwrap_or_else(|_| sandbox_name(&spec.metadata));
        let service = self.clone();
        self.running.run(key, async move { service.run_named(spec).await }).await?
    }

    async fn run_named(&self, spec: SandboxSpec) -> Result<SandboxId, Failure> {
        let _held = self.deps.node.locks.write(&sandbox_name(&spec.metadata)).await;
        self.run_locked(spec).await
    }

    /// Runs a sandbox. The caller must hold the lock on the sandbox's name.
    pub(super) async fn run_locked(&self, spec: SandboxSpec) -> Result<SandboxId, Failure> {
        let name = sandbox_name(&spec.metadata);
        if let Some(id) = self.reuse_or_remove(&spec).await? {
            return Ok(id);
        }
        let nri = &self.deps.node.nri;
        let creation = nri.begin(Identity::Pod(spec.metadata.clone())).await?;
        let plan = self.plan(spec).await?;
        let mut undo = Undo::default();
        let built = self.build(&plan, &mut undo).await;
        let ready = async {
            let id = built?;
            let record = self.record(&id)?;
            nri.run_pod(creation.as_ref(), &record).await?;
            self.ensure_ready(id)
        };
        match ready.await {
            Ok(id) => {
                undo.keep();
                info!(sandbox = %id, name, "pod sandbox is ready");
                Ok(id)
            }
            Err(cause) => {
                warn!(name, error = chain(&cause), "cannot start the pod sandbox; cleaning up");
                let leftovers = undo.roll_back().await;
                if leftovers.is_empty() {
                    return Err(cause);
                }
                let text = format!("{cause} (and cleanup failed: {})", leftovers.join("; "));
                Err(Failure::new(cause.kind(), text))
            }
        }
    }

    /// Returns the ready sandbox of an equal request. Removes a sandbox with the same metadata that is not ready, or
    /// that NRI plugins refused. Searches by metadata: after a name conflict, a pause container may have another name.
    async fn reuse_or_remove(&self, spec: &SandboxSpec) -> Result<Option<SandboxId>, Failure> {
        let snapshot = self.deps.node.store.synced(SYNC_TIMEOUT).await?;
        let same = |sandbox: &&Arc<SandboxRecord>| sandbox.document.spec.metadata == spec.metadata;
        let Some(held) = snapshot.sandboxes().iter().find(same) else { return Ok(None) };
        // The sandbox may have ended, and Docker's event of its end might not have arrived yet.
        self.deps.node.store.refresh_container(held.id.as_str()).await?;
        let snapshot = self.deps.node.store.snapshot();
        let Some(found) = snapshot.sandbox(held.id.as_str()) else { return Ok(None) };
        // A sandbox that NRI plugins refused can still exist if its removal failed.
        if found.state() != SandboxState::Ready
            || !self.deps.node.nri.knows_pod(found.id.as_str()).await
        {
            self.remove(found.id.as_str()).await?;
            return Ok(None);
        }
        if found.document.spec == *spec {
            return Ok(Some(found.id.clone()));
        }
        let (pod, holder) = (&spec.metadata, &found.id);
        let text = format!(
            "pod {}/{} attempt {} already has sandbox {holder} with another configuration: stop and remove \
             that sandbox, or use another attempt",
            pod.namespace, pod.name, pod.attempt
        );
        Err(Failure::new(Kind::AlreadyExists, text))
    }

    async fn plan(&self, spec: SandboxSpec) -> Result<SandboxPlan, Failure> {
        let pause = self.deps.images.pause().await;
        let pause = pause.map_err(|e| e.within("cannot prepare the pause image"))?;
        let snapshot = self.deps.node.store.snapshot();
        let engine = snapshot.described()?;
        if self.mode == NetworkMode::Cni && !spec.namespaces.host_network {
            self.deps.network.ensure_configured().await?;
        }
        let security = &spec.security;
        let seccomp = seccomp_profile(security.seccomp.as_ref(), security.privileged).await?;
        check_sandbox(engine, security).await?;
        let input = SandboxInput {
            engine,
            seccomp: seccomp.as_deref(),
            pause: &pause,
            network: self.mode,
            oom_floor: self.deps.node.oom_floor().await,
            // Random, because the shim of an earlier sandbox of this pod might not have ended yet.
            shim_group: &format!("dockbridge-{:032x}", rand::rng().random::<u128>()),
        };
        plan::sandbox::plan(spec, &input)
    }

    async fn build(&self, plan: &SandboxPlan, undo: &mut Undo) -> Result<SandboxId, Failure> {
        let (engine, body) = (&self.deps.node.engine, &plan.body);
        let create = |name: String| async move { engine.create_container(&name, body).await };
        let creating = EngineCall::begin(Transition::Created);
        let pod = &plan.document.spec.metadata;
        let resolve = |holder: &Observed| resolution(pod, holder);
        let created = create_named(&self.deps.node, &plan.name, create, resolve).await?;
        let service = self.clone();
        let container = created.clone();
        undo.push("remove the sandbox container", async move { service.discard(&container).await });
        let id = SandboxId::try_from(created)?;
        // The store may show the sandbox from now on, but because of this lock, calls that create containers in it,
        // stop it or remove it wait for the end of this RunPodSandbox.
        undo.hold(self.deps.node.locks.write(id.as_str()).await);
        let (service, sandbox) = (self.clone(), id.clone());
        undo.push("release the namespaces of the sandbox", async move {
            service.unpin_released(&sandbox).await
        });
        if plan.document.network == NetworkMode::Cni {
            self.connect(&id, (plan, creating), undo).await?;
        } else {
            self.make_namespaces(&id, plan).await?;
            self.start_pause(&id).await?;
        }
        Ok(id)
    }

    /// Starts the pause container and connects its network namespace. Writes the attachment to disk before any
    /// plugin runs ADD. Inspects before the start, because the engine answers no inspect during a start.
    ///
    /// If both the start and a plugin fail, returns the start's error: plugins fail if the pod has ended.
    async fn connect(
        &self,
        id: &SandboxId,
        (plan, creating): (&SandboxPlan, EngineCall),
        undo: &mut Undo,
    ) -> Result<(), Failure> {
        let pod = pod_network(id, &plan.document.spec, self.pin_of(id));
        let (prepared, inspected, made) = tokio::join!(
            self.deps.network.prepare(pod),
            self.deps.node.store.refresh_after(creating, id.as_str()),
            self.make_namespaces(id, plan),
        );
        let cni = prepared?;
        inspected?;
        made?;
        let record = self.record(id)?;
        let (service, sandbox, undone) = (self.clone(), id.clone(), cni.clone());
        let release = async move { service.release(&sandbox, &undone).await };
        undo.push("disconnect the network", release);
        let (is_during_start, failed) =
            (plan.namespace == NetworkNamespace::ConnectedDuringStart, CancellationToken::new());
        let adding = async {
            let adding = Attachment::Adding(cni.clone());
            self.save_attachment(&record, adding, Durability::Synced).await?;
            let attached = is_during_start.then(|| self.deps.network.attach(&cni));
            // If the pause container cannot start, dockbridge does not wait for a plugin that hangs.
            let attached = failed.run_until_cancelled(OptionFuture::from(attached)).await;
            attached.flatten().transpose()
        };
        let starting = async {
            let started = self.start(id, plan.namespace).await;
            started.inspect_err(|_| failed.cancel())
        };
        let (started, added) = tokio::join!(starting, adding);
        let started_at = started?;
        let attached = match added? {
            Some(attached) => attached,
            None => self.deps.network.attach(&cni).await?,
        };
        let Attached { addresses, result } = attached;
        let ready = Attachment::Ready { cni, addresses, result, started_at };
        self.save_attachment(&record, ready, Durability::Written).await
    }

    /// Starts the pause container, and pins its network namespace or checks that the container has joined the pinned
    /// namespace. Returns the container's start time.
    async fn start(
        &self,
        id: &SandboxId,
        namespace: NetworkNamespace,
    ) -> Result<Option<Nanos>, Failure> {
        let (pid, started_at) = self.start_pause(id).await?;
        let joined = match namespace {
            NetworkNamespace::Engine => self.pin(id, pid).await,
            NetworkNamespace::ConnectedAfterStart | NetworkNamespace::ConnectedDuringStart => {
                self.ensure_in_made_namespace(id, pid).await
            }
        };
        if let Err(error) = joined {
            // If the pause process has ended since its inspect, `pid_of` fails, and its error says so.
            self.deps.node.store.refresh_container(id.as_str()).await?;
            self.pid_of(id)?;
            return Err(error);
        }
        Ok(started_at)
    }

    async fn start_pause(&self, id: &SandboxId) -> Result<(u32, Option<Nanos>), Failure> {
        let start = start_once(&self.deps.node, id.as_str(), Duration::ZERO).await;
        start.started?;
        start.seen?;
        let pid = self.pid_of(id)?;
        let started_at = self.record(id)?.process.as_ref().and_then(Process::started_at);
        Ok((pid, started_at.filter(|at| at.is_set())))
    }

    /// Fails if the pause container has already ended: the kernel knows this before the engine.
    fn ensure_ready(&self, id: SandboxId) -> Result<SandboxId, Failure> {
        let is_alive = Processes::new("/proc").get(self.pid_of(&id)?).is_some_and(|it| it.is_alive);
        if is_alive && self.record(&id)?.state() == SandboxState::Ready {
            return Ok(id);
        }
        Err(ended(&id))
    }

    fn pid_of(&self, id: &SandboxId) -> Result<u32, Failure> {
        self.record(id)?.pid().ok_or_else(|| ended(id))
    }

    pub(super) fn record(&self, id: &SandboxId) -> Result<Arc<SandboxRecord>, Failure> {
        let snapshot = self.deps.node.store.snapshot();
        snapshot.sandbox(id.as_str()).map(Arc::clone).ok_or_else(|| ended(id))
    }

    /// Undo of [`Self::connect`].
    async fn release(&self, id: &SandboxId, cni: &CniAttachment) -> Result<(), Failure> {
        if let Ok(record) = self.record(id) {
            // The checkpoint file of a pod that NRI plugins rejected says that the pod is ready. The pod must not
            // count as ready after a crash at this point, so dockbridge changes the file. If dockbridge cannot
            // change the file, it releases the network nevertheless.
            self.try_save_attachment(&record, Attachment::Adding(cni.clone())).await;
        }
        self.deps.network.detach(cni).await?;
        self.unpin(id).await?;
        self.forget(id).await
    }

    /// Removes the pause container, and its files for dockbridge-runtime.
    pub(super) async fn discard(&self, id: &str) -> Result<(), Failure> {
        self.deps.node.engine.remove_container(id).await?;
        self.deps.node.oci_runtime_files.remove(id).await;
        self.deps.node.store.refresh_container(id).await
    }
}

fn ended(id: &SandboxId) -> Failure {
    Failure::unmet(format!(
        "the pause container of sandbox {id} ended while the sandbox was being set up"
    ))
}

/// Decides what to do with a container that already has the name for this pod's new sandbox.
/// `docker rename` may have given this name to an unrelated container.
fn resolution(pod: &PodMetadata, holder: &Observed) -> Resolution {
    match holder {
        Observed::Sandbox(holder) if holder.document.spec.metadata == *pod => {
            let id = holder.id.to_string();
            if holder.is_running() { Resolution::Refuse(id) } else { Resolution::Replace(id) }
        }
        _ => Resolution::UseOtherName,
    }
}

//! CreateContainer: gathers facts, plans, creates.

use std::{fs::DirBuilder, io, os::unix::fs::DirBuilderExt, path::Path, sync::Arc};

use tracing::{info, warn};

use super::{
    gather::host_check::within_deadline,
    name_conflict::{Resolution, create_named},
    node::{refused_file, sandbox_not_ready},
    service::Containers,
    volumes::Volumes,
};
use crate::{
    concurrency::blocking::blocking,
    engine::{client::Engine, error::EngineError},
    error::{Failure, chain},
    model::{
        container::ContainerSpec,
        document::ContainerDocument,
        engine::Transition,
        id::ContainerId,
        network::DnsConfig,
        record::{ContainerRecord, Observed, Process, SandboxRecord, SandboxState},
    },
    nri::creation::Identity,
    store::{engine_call::EngineCall, settings::SYNC_TIMEOUT, snapshot::Snapshot},
    translate::plan::{container::ContainerPlan, labels::encoded},
};

impl Containers {
    /// Creates a container in a ready sandbox and returns the container's id. A repeated call returns the same
    /// container if its specification and image are the same, it was not started, and it is not waiting for NRI
    /// plugins. `dns` are the pod's DNS settings in this request, used only for an adopted pod.
    ///
    /// # Errors
    /// The sandbox or image is unknown, the sandbox is not ready, the request cannot be fulfilled, a running
    /// container of the pod has the name, an NRI plugin refuses, or a step fails.
    pub async fn create(
        &self,
        sandbox: &str,
        spec: ContainerSpec,
        dns: Option<DnsConfig>,
    ) -> Result<ContainerId, Failure> {
        let snapshot = self.node.store.synced(SYNC_TIMEOUT).await?;
        let sandbox = Arc::clone(snapshot.known_sandbox(sandbox)?);
        if self.node.nri.hides_pod(&sandbox) {
            return Err(Failure::missing(format_args!("sandbox {}", sandbox.id)));
        }
        let request = encoded(&spec)?;
        let key = format!("{}\n{request}", sandbox.id);
        let service = self.clone();
        self.creating
            .run(key, async move { service.create_in(sandbox.id.as_str(), spec, dns).await })
            .await?
    }

    async fn create_in(
        &self,
        sandbox: &str,
        spec: ContainerSpec,
        dns: Option<DnsConfig>,
    ) -> Result<ContainerId, Failure> {
        let _pod = self.node.locks.read(sandbox).await;
        let snapshot = self.node.store.inspected(sandbox).await?;
        let sandbox =
            snapshot.known_sandbox(sandbox)?.clone().with_settings_if_adopted(dns, spec.users);
        if sandbox.state() != SandboxState::Ready {
            return Err(sandbox_not_ready(&sandbox.id));
        }
        let volumes = self.node.volumes(&snapshot, &spec).await?;
        let made = self.make(&snapshot, &sandbox, spec, &volumes).await;
        if made.is_err() {
            self.node.release_volumes(volumes).await;
        }
        made
    }

    async fn make(
        &self,
        snapshot: &Snapshot,
        sandbox: &SandboxRecord,
        spec: ContainerSpec,
        volumes: &Volumes,
    ) -> Result<ContainerId, Failure> {
        let identity = Identity::Container(sandbox.id.clone(), spec.metadata.clone());
        let creation = self.node.nri.begin(identity).await?;
        let plan = self.node.plan(snapshot, sandbox, spec, &volumes.ready).await?;
        let (made, prepared) =
            tokio::join!(make_mount_sources(&plan), self.node.logs.prepare(&plan.document.spec));
        made?;
        if let Err(error) = prepared {
            // A full disk must not prevent the creation: dockbridge can write the log later, from Docker's log files.
            if !error.is_full() {
                return Err(error.into());
            }
            let error = chain(&error);
            warn!(
                name = plan.name,
                error,
                "the disk is full, so the directory of the container's log is missing; creating the container anyway"
            );
        }
        let resolve = |observed: &Observed| match observed {
            Observed::Container(holder) if is_of_pod(holder, sandbox, snapshot) => {
                match resolution(&plan.document, holder) {
                    // NRI plugins have not accepted this container, for example because dockbridge ended first.
                    // dockbridge replaces such a container with a new one, about which it asks the plugins.
                    Resolution::Adopt(id) if self.awaits_adjustment(holder) => {
                        Resolution::Replace(id)
                    }
                    resolution => resolution,
                }
            }
            _ => Resolution::UseOtherName,
        };
        let creating = EngineCall::begin(Transition::Created);
        let (docker, to_create) = (&self.node.engine, &plan);
        let create = |name: String| async move { create_logged(docker, &name, to_create).await };
        let created = create_named(&self.node, &plan.name, create, resolve).await?;
        self.node.store.refresh_after(creating, &created).await?;
        let (owner, spec) = (&plan.document.sandbox, &plan.document.spec);
        if let Err(error) =
            self.node.relabel_mounts(snapshot.described()?, (owner, spec), &created).await
        {
            self.discard(&created).await;
            return Err(error);
        }
        let id = ContainerId::try_from(created)?;
        self.ask_plugins(creation, &id).await?;
        info!(container = %id, name = plan.name, sandbox = %sandbox.id, "container created");
        Ok(id)
    }

    /// Removes a container after a later step of its creation has failed.
    pub(super) async fn discard(&self, id: &str) {
        let removed = async {
            self.node.engine.remove_container(id).await?;
            self.node.store.refresh_container(id).await
        };
        if let Err(cause) = removed.await {
            let cause = chain(&cause);
            warn!(
                container = id,
                error = cause,
                "cannot confirm that a container whose creation failed was removed; the container may stay in Docker"
            );
        }
    }
}

/// Creates a container with the log mode `blocking`, or if the engine refuses, with Docker's own mode.
async fn create_logged(
    engine: &Engine,
    name: &str,
    plan: &ContainerPlan,
) -> Result<String, EngineError> {
    let refused = match engine.create_container(name, &plan.body).await {
        Err(error @ EngineError::Rejected { .. }) => error,
        created => return created,
    };
    let Some(plan) = plan.with_daemons_log_mode() else { return Err(refused) };
    let id = match engine.create_container(name, &plan.body).await {
        Err(EngineError::Rejected { .. }) => return Err(refused),
        created => created?,
    };
    let error = chain(&refused);
    warn!(
        container = id,
        name,
        error,
        "docker refuses the log mode \"blocking\", and drops lines that the container writes faster than the disk"
    );
    Ok(id)
}

/// Creates missing sources of the requested bind mounts if the engine's API is older than 1.42 and cannot create them.
async fn make_mount_sources(plan: &ContainerPlan) -> Result<(), Failure> {
    let directories = plan.directories.clone();
    within_deadline(|check| {
        blocking(move || {
            directories.into_iter().try_for_each(|path| {
                check.at(&path)?;
                make_directory(&path).map_err(|e| refused_file("create the mount source", &path, e))
            })
        })
    })
    .await
}

/// Creates the source of a mount as a directory, if nothing exists at the path.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// Whether `holder`, which has the wanted name, belongs to this or another sandbox of this pod, or to an unknown
/// sandbox. `docker rename` may have given the name to a container of another pod.
fn is_of_pod(holder: &ContainerRecord, sandbox: &SandboxRecord, snapshot: &Snapshot) -> bool {
    let of = &sandbox.document.spec.metadata;
    snapshot.sandbox(holder.document.sandbox.as_str()).is_none_or(|pod| {
        let found = &pod.document.spec.metadata;
        (&found.uid, &found.name, &found.namespace) == (&of.uid, &of.name, &of.namespace)
    })
}

/// What to do with `holder`, a container of this pod that already has the wanted name.
fn resolution(wanted: &ContainerDocument, holder: &ContainerRecord) -> Resolution {
    let id = holder.id.to_string();
    match &holder.process {
        _ if holder.document.spec.metadata != wanted.spec.metadata => Resolution::UseOtherName,
        Process::Created if *holder.document == *wanted => Resolution::Adopt(id),
        Process::Running { .. } => Resolution::Refuse(id),
        _ => Resolution::Replace(id),
    }
}

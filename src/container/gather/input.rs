//! Gathers the input of a plan, cheap parts first.

use std::sync::Arc;

use crate::{
    container::{
        error::ContainerError, gather::seccomp_profile::seccomp_profile, service::Containers,
    },
    model::{
        container::ContainerSpec,
        id::ContainerId,
        record::{ImageRecord, SandboxRecord},
        reference::{can_move, printable},
        sandbox::PidMode,
        volume::ImageVolume,
    },
    store::snapshot::Snapshot,
    translate::plan::{self, container::ContainerPlan, input::ContainerInput},
};

impl Containers {
    /// Gathers the input and plans.
    pub(in crate::container) async fn plan(
        &self,
        snapshot: &Snapshot,
        sandbox: &SandboxRecord,
        spec: ContainerSpec,
        image_volumes: &[ImageVolume],
    ) -> Result<ContainerPlan, ContainerError> {
        let engine = snapshot.described()?;
        self.check_hugepages(&spec.resources, engine).await?;
        let pid_target = pid_target(snapshot, sandbox, &spec)?;
        let seccomp =
            seccomp_profile(spec.security.seccomp.as_ref(), spec.security.privileged).await?;
        self.check_host(engine, &spec).await?;
        let image = self.image(snapshot, &spec.image).await?;
        let accounts = self.accounts(&image, &spec).await?;
        let cdi = self.cdi_edits(engine, &spec, &sandbox.document.spec.handler).await?;
        let files = self.files.ensure(sandbox).await?;
        let input = ContainerInput {
            engine,
            sandbox,
            image: &image,
            oom_floor: self.oom_floor().await,
            files: &files,
            pid_target: pid_target.as_ref(),
            log_format: self.logs.format(),
            seccomp: seccomp.as_deref(),
            accounts: accounts.as_deref(),
            cdi: cdi.as_deref(),
            is_adjustable: self.nri.may_adjust().await,
            image_volumes,
        };
        Ok(plan::container::plan(spec, &input)?)
    }

    /// The image by any of its names. A tag may have moved a moment ago, before the store knows, so
    /// the engine is asked. It is not asked for an id or a digest that the store has.
    pub(in crate::container) async fn image(
        &self,
        snapshot: &Snapshot,
        name: &str,
    ) -> Result<Arc<ImageRecord>, ContainerError> {
        let known = snapshot.image(name).filter(|image| image.inspected && !can_move(name));
        if let Some(image) = known {
            return Ok(Arc::clone(image));
        }
        let missing = || ContainerError::ImageNotFound { name: printable(name).into_owned() };
        self.store.refresh_image(name).await?;
        self.store.snapshot().image(name).map(Arc::clone).ok_or_else(missing)
    }
}

/// The container whose processes are shared, for [`PidMode::Target`] (ephemeral containers).
fn pid_target(
    snapshot: &Snapshot,
    sandbox: &SandboxRecord,
    spec: &ContainerSpec,
) -> Result<Option<ContainerId>, ContainerError> {
    if spec.pid != PidMode::Target {
        return Ok(None);
    }
    snapshot
        .container(&spec.pid_target)
        .filter(|target| target.document.sandbox == sandbox.id && target.process.is_running())
        .map(|target| Some(target.id.clone()))
        .ok_or_else(|| ContainerError::TargetNotReady { id: spec.pid_target.clone() })
}

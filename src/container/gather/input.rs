//! Gathers the input of a container's plan.

use std::sync::Arc;

use tracing::warn;

use crate::{
    container::{
        gather::{host::check_host, seccomp_profile::seccomp_profile},
        limits::hugepages::check_hugepages,
        node::Node,
    },
    error::{Failure, chain},
    image_files::{error::UnreadableFile, service::ImageFiles},
    model::{
        accounts::Accounts,
        container::ContainerSpec,
        id::ContainerId,
        record::{ImageRecord, SandboxRecord},
        sandbox::PidMode,
        volume::ImageVolume,
    },
    store::snapshot::Snapshot,
    translate::plan::{
        self, container::ContainerPlan, identity::needs_accounts, input::ContainerInput,
    },
};

impl Node {
    pub(in crate::container) async fn plan(
        &self,
        snapshot: &Snapshot,
        sandbox: &SandboxRecord,
        mut spec: ContainerSpec,
        image_volumes: &[ImageVolume],
    ) -> Result<ContainerPlan, Failure> {
        let engine = snapshot.described()?;
        check_hugepages(&self.cgroups, &spec.resources, engine).await?;
        let pid_target = pid_target(snapshot, sandbox, &spec)?;
        let seccomp =
            seccomp_profile(spec.security.seccomp.as_ref(), spec.security.privileged).await?;
        check_host(self.engine.socket(), engine, &spec).await?;
        let found = self.restored(snapshot, &spec).await?;
        if let Some(found) =
            found.as_ref().filter(|_| spec.command.is_empty() && spec.args.is_empty())
        {
            spec.command.clone_from(&found.command);
        }
        let image = match &found {
            Some(found) => found.image.clone(),
            None => self.present_image(snapshot, &spec.image).await?,
        };
        let accounts = accounts(&self.image_files, &image, &spec).await?;
        let cdi = self.cdi_edits(engine, &spec, &sandbox.document.spec.handler).await?;
        let files = self.pod_files.ensure(sandbox).await?;
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
            restore: found.as_ref().map(|found| &found.restore),
            image_volumes,
        };
        plan::container::plan(spec, &input)
    }
}

/// The container whose process namespace an ephemeral container shares, with [`PidMode::Target`].
fn pid_target(
    snapshot: &Snapshot,
    sandbox: &SandboxRecord,
    spec: &ContainerSpec,
) -> Result<Option<ContainerId>, Failure> {
    if spec.pid != PidMode::Target {
        return Ok(None);
    }
    snapshot
        .container(&spec.pid_target)
        .filter(|target| target.document.sandbox == sandbox.id && target.process.is_running())
        .map(|target| Some(target.id.clone()))
        .ok_or_else(|| {
            let target = &spec.pid_target;
            Failure::unmet(format!(
                "target container {target} is not a running container of this pod"
            ))
        })
}

/// The accounts (`/etc/passwd`, `/etc/group`) of the image. Fails if a file is not regular, or if the container's
/// groups depend on a file that cannot be read. None for another unreadable file: the status then shows no user.
async fn accounts(
    files: &ImageFiles,
    image: &ImageRecord,
    spec: &ContainerSpec,
) -> Result<Option<Arc<Accounts>>, Failure> {
    match files.accounts(&image.id).await {
        Ok(accounts) => Ok(Some(accounts)),
        // Refuses a file that is not regular: when the container starts, the engine also opens the file, and
        // would hang if the file is a FIFO.
        Err(error @ UnreadableFile::NotRegular { .. }) => Err(unreadable(error)),
        Err(error) if needs_accounts(&spec.security.identity, &image.user) => {
            Err(unreadable(error))
        }
        Err(error) => {
            warn!(image = %image.id, error = chain(&error), "cannot read /etc/passwd or /etc/group of an image; continuing without them");
            Ok(None)
        }
    }
}

fn unreadable(cause: UnreadableFile) -> Failure {
    Failure::from(cause).within("cannot read /etc/passwd or /etc/group of the image")
}

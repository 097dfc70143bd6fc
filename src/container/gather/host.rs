//! What this host has of what is asked for: looked at before anything is made.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use tracing::warn;

use super::{devices, mounts, selinux};
use crate::{
    container::{error::ContainerError, room::Containers},
    error::Kind,
    host::apparmor,
    model::{
        container::ContainerSpec, engine::EngineInfo, sandbox::SandboxSecurity, security::Profile,
    },
    translate::plan::error::PlanError,
};

impl Containers {
    /// Refuses devices that are not there, mounts that cannot be, and profiles and labels that
    /// the kernel does not know.
    pub(super) async fn check_host(
        &self,
        engine: &EngineInfo,
        spec: &ContainerSpec,
    ) -> Result<(), ContainerError> {
        let (devices, mounts) = (spec.devices.clone(), spec.mounts.clone());
        let security = spec.security.clone();
        let (engine, socket) = (engine.clone(), self.engine.socket().to_owned());
        let at = "config.linux.security_context";
        look(move || {
            check_apparmor(security.apparmor.as_ref(), &engine, at)?;
            selinux::check(security.selinux.as_ref(), &engine, &format!("{at}.selinux_options"))?;
            devices::check(&devices)?;
            mounts::check(&mounts, &socket)
        })
        .await
    }

    /// The same for a pause.
    ///
    /// # Errors
    /// The kernel does not know the profile or label.
    pub async fn check_sandbox(
        &self,
        engine: &EngineInfo,
        security: &SandboxSecurity,
    ) -> Result<(), ContainerError> {
        let (engine, security) = (engine.clone(), security.clone());
        let at = "config.linux.security_context";
        look(move || {
            check_apparmor(security.apparmor.as_ref(), &engine, at)?;
            selinux::check(security.selinux.as_ref(), &engine, &format!("{at}.selinux_options"))
        })
        .await
    }
}

/// Off the async threads: a host path may be on a file system that does not answer.
async fn look(
    check: impl FnOnce() -> Result<(), PlanError> + Send + 'static,
) -> Result<(), ContainerError> {
    let looking = tokio::task::spawn_blocking(check);
    match tokio::time::timeout(PATIENCE, looking).await {
        Ok(Ok(checked)) => Ok(checked?),
        Ok(Err(lost)) => Err(ContainerError::file("look at", PathBuf::from("/"), lost.into())),
        Err(_) => Err(ContainerError::File {
            action: "look at the host's devices and mount sources below",
            path: PathBuf::from("/"),
            cause: Arc::new(io::ErrorKind::TimedOut.into()),
            kind: Kind::DeadlineExceeded,
        }),
    }
}

/// The engine notices a profile that is not loaded at the start only. An engine without AppArmor
/// is for the plan to refuse.
fn check_apparmor(
    profile: Option<&Profile>,
    engine: &EngineInfo,
    at: &str,
) -> Result<(), PlanError> {
    let Some(Profile::Localhost(name)) = profile else { return Ok(()) };
    if !engine.has_apparmor() {
        return Ok(());
    }
    match apparmor::is_loaded(name) {
        Ok(true) => Ok(()),
        Ok(false) => Err(PlanError::Host {
            field: format!("{at}.apparmor"),
            reason: format!("profile {name:?} is not loaded in this host's kernel"),
        }),
        Err(error) => {
            warn!(profile = name, %error, "cannot tell whether an AppArmor profile is loaded");
            Ok(())
        }
    }
}

/// Longer than any healthy disk takes.
const PATIENCE: Duration = Duration::from_secs(20);

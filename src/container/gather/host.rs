//! Checks what a request needs on this host, before the container is created.

use std::path::Path;

use tracing::warn;

use super::{devices, host_check::within_deadline, mounts, selinux};
use crate::{
    concurrency::blocking::blocking,
    error::Failure,
    host::{apparmor, mounts::MountTable},
    model::{
        container::ContainerSpec, engine::EngineInfo, sandbox::SandboxSecurity, security::Profile,
    },
};

pub(super) async fn check_host(
    socket: &Path,
    engine: &EngineInfo,
    spec: &ContainerSpec,
) -> Result<(), Failure> {
    let (devices, mounts) = (spec.devices.clone(), spec.mounts.clone());
    let security = spec.security.clone();
    let (engine, socket) = (engine.clone(), socket.to_owned());
    check(move |go| {
        check_apparmor(security.apparmor.as_ref(), &engine)?;
        selinux::check(security.selinux.as_ref(), &engine)?;
        devices::check(&devices, go)?;
        mounts::check(&mounts, || MountTable::of_engine(&socket).ok(), go)
    })
    .await
}

/// Checks the AppArmor profile and the SELinux label of a pause container, if the engine uses them.
pub async fn check_sandbox(engine: &EngineInfo, security: &SandboxSecurity) -> Result<(), Failure> {
    let (engine, security) = (engine.clone(), security.clone());
    check(move |_| {
        check_apparmor(security.apparmor.as_ref(), &engine)?;
        selinux::check(security.selinux.as_ref(), &engine)
    })
    .await
}

/// Runs `work` outside the async threads. Before `work` reads a path, `work` must call its argument with the path.
async fn check(
    work: impl FnOnce(&dyn Fn(&Path) -> Result<(), Failure>) -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    within_deadline(|check| blocking(move || work(&|path| check.at(path)))).await
}

/// Without this check, the engine would notice only when the container starts that an AppArmor profile is not
/// loaded. If the engine does not use AppArmor, the container's plan refuses the profile.
fn check_apparmor(profile: Option<&Profile>, engine: &EngineInfo) -> Result<(), Failure> {
    let Some(Profile::Localhost(name)) = profile else { return Ok(()) };
    if !engine.has_apparmor() {
        return Ok(());
    }
    match apparmor::is_loaded(name) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::invalid(format!(
            "config.linux.security_context.apparmor: profile {name:?} is not loaded in this host's kernel"
        ))),
        Err(error) => {
            warn!(profile = name, %error, "cannot check whether an AppArmor profile is loaded; leaving the check to Docker");
            Ok(())
        }
    }
}

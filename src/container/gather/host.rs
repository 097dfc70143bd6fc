//! What this host has of what is asked for: looked at before anything is made.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use tokio::{sync::Semaphore, task::JoinError};
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

/// Off the async threads.
async fn look(
    check: impl FnOnce() -> Result<(), PlanError> + Send + 'static,
) -> Result<(), ContainerError> {
    let lost = |lost: JoinError| ContainerError::file("look at", "/", lost.into());
    patiently("the host's devices and mount sources", async move {
        Ok(tokio::task::spawn_blocking(check).await.map_err(lost)??)
    })
    .await
}

/// Looks at what others chose on this host, which may be on a file system that never answers: the
/// caller waits for so long, and what hangs is let alone, with the thread it holds. There is room
/// for as many as leave the threads that all other work needs.
pub(super) async fn patiently<T: Send + 'static>(
    what: &'static str,
    work: impl Future<Output = Result<T, ContainerError>> + Send + 'static,
) -> Result<T, ContainerError> {
    let hangs = |action| ContainerError::File {
        action,
        path: PathBuf::from(what),
        cause: Arc::new(io::Error::new(io::ErrorKind::TimedOut, HANGS)),
        kind: Kind::DeadlineExceeded,
    };
    let Ok(seat) = SEATS.try_acquire() else { return Err(hangs("look, as others do, at")) };
    let looking = tokio::spawn(async move {
        let seen = work.await;
        drop(seat);
        seen
    });
    match tokio::time::timeout(PATIENCE, looking).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(lost)) => Err(ContainerError::file("look at", what, lost.into())),
        Err(_) => Err(hangs("look at")),
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
            warn!(profile = name, %error, "cannot check whether an AppArmor profile is loaded; leaving it to Docker");
            Ok(())
        }
    }
}

/// Half of the threads there are for what blocks.
static SEATS: Semaphore = Semaphore::const_new(256);
/// What to look for on the host.
const HANGS: &str = "a file system of this host does not answer (a dead network mount?)";
/// Longer than any healthy disk takes.
const PATIENCE: Duration = Duration::from_secs(20);

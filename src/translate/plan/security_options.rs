//! Plans `SecurityOpt` and other security fields: seccomp, AppArmor, SELinux, capabilities, privileges, and
//! the cgroup namespace. A localhost profile is a name for AppArmor, and the text of a file for seccomp.

use super::{capabilities, defaults::none_if_empty, seccomp};
use crate::{
    error::Failure,
    model::{
        engine::EngineInfo,
        sandbox::SandboxSecurity,
        security::{ContainerSecurity, Profile, SelinuxLabel},
    },
    wire::docker::{HostConfig, HostConfigCgroupnsModeEnum},
};

/// Sets the security options of a pause container. `profile` is the text of its localhost seccomp profile.
pub(super) fn confine_sandbox(
    host: &mut HostConfig,
    security: &SandboxSecurity,
    engine: &EngineInfo,
    profile: Option<&str>,
) -> Result<(), Failure> {
    let seccomp = seccomp::sandbox(security, engine, profile)?;
    let SandboxSecurity { privileged, readonly_rootfs, selinux, apparmor, .. } = security.clone();
    let same = ContainerSecurity {
        privileged,
        readonly_rootfs,
        no_new_privs: true,
        apparmor,
        selinux,
        ..ContainerSecurity::default()
    };
    confine(host, &same, engine, seccomp)
}

/// Sets the security options of a container. `seccomp` is the option with its seccomp profile.
pub(super) fn confine(
    host: &mut HostConfig,
    security: &ContainerSecurity,
    engine: &EngineInfo,
    seccomp: Option<String>,
) -> Result<(), Failure> {
    // The request always has `no-new-privileges`, because Docker's configuration can enable it by default.
    let mut options = vec![format!("no-new-privileges={}", security.no_new_privs)];
    options.extend(selinux(security.selinux.as_ref()));
    options.extend(seccomp);
    options.extend(apparmor(security.apparmor.as_ref(), engine)?);
    host.security_opt = Some(options);
    host.privileged = Some(security.privileged);
    // In Kubernetes a container has its own cgroup namespace, unless it is privileged or uses cgroup v1.
    host.cgroupns_mode = Some(if security.privileged || engine.cgroup_version == 1 {
        HostConfigCgroupnsModeEnum::HOST
    } else {
        HostConfigCgroupnsModeEnum::PRIVATE
    });
    host.readonly_rootfs = Some(security.readonly_rootfs);
    // Opts all containers out of userns-remap, with which the engine refuses the host's network and PID namespace.
    host.userns_mode = engine.remaps_users().then(|| "host".to_owned());
    host.cap_add = none_if_empty(&capabilities::added(&security.capabilities));
    host.cap_drop = none_if_empty(&capabilities::dropped(&security.capabilities));
    if security.stated && !security.privileged {
        // The CRI has complete lists of masked and read-only paths. The engine uses its defaults for a missing list.
        host.masked_paths = Some(security.masked_paths.clone());
        host.readonly_paths = Some(security.readonly_paths.clone());
    }
    Ok(())
}

/// The engine's security option with the AppArmor profile. The caller must check that the profile is loaded in the
/// kernel, because the engine notices a missing profile only when it starts the container.
fn apparmor(profile: Option<&Profile>, engine: &EngineInfo) -> Result<Option<String>, Failure> {
    let on = engine.has_apparmor();
    match profile {
        None | Some(Profile::RuntimeDefault) => Ok(None),
        Some(Profile::Unconfined) => Ok(on.then(|| "apparmor=unconfined".to_owned())),
        Some(Profile::Localhost(name)) if on => Ok(Some(format!("apparmor={name}"))),
        Some(Profile::Localhost(name)) => Err(Failure::unmet(format!(
            "AppArmor profile {name:?} is requested but the engine runs without AppArmor"
        ))),
    }
}

fn selinux(label: Option<&SelinuxLabel>) -> Vec<String> {
    let Some(label) = label else { return Vec::new() };
    [("user", &label.user), ("role", &label.role), ("type", &label.kind), ("level", &label.level)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(part, value)| format!("label={part}:{value}"))
        .collect()
}

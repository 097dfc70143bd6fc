//! Parses security contexts: users, privileges, namespaces.

use super::{
    error::{At, ParseError},
    text,
    user_namespace::{self, namespace_mode},
};
use crate::{
    model::{
        sandbox::{PidMode, SandboxNamespaces, SandboxSecurity},
        security::{
            Capabilities, ContainerSecurity, GroupsPolicy, Identity, Profile, RunAs, SelinuxLabel,
        },
    },
    wire::cri,
};

/// Reads the security context of a sandbox, which applies to its pause container.
#[expect(deprecated, reason = "older callers know only the deprecated seccomp field")]
pub(super) fn sandbox(
    given: &cri::LinuxSandboxSecurityContext,
) -> Result<SandboxSecurity, ParseError> {
    Ok(SandboxSecurity {
        identity: identity(
            (given.run_as_user, ""),
            given.run_as_group,
            (&given.supplemental_groups, given.supplemental_groups_policy),
        )?,
        privileged: given.privileged,
        readonly_rootfs: given.readonly_rootfs,
        seccomp: seccomp(given.seccomp.as_ref(), &given.seccomp_profile_path)?,
        apparmor: apparmor(given.apparmor.as_ref(), "")?,
        selinux: selinux(given.selinux_options.as_ref()).at("selinux_options")?,
    })
}

/// Reads the security context of a container, without its namespaces.
#[expect(deprecated, reason = "older callers know only the deprecated profile fields")]
pub(super) fn container(
    given: &cri::LinuxContainerSecurityContext,
) -> Result<ContainerSecurity, ParseError> {
    let paths = |items: &[String]| text::each(items, |item| text::path(item));
    Ok(ContainerSecurity {
        identity: identity(
            (given.run_as_user, &given.run_as_username),
            given.run_as_group,
            (&given.supplemental_groups, given.supplemental_groups_policy),
        )?,
        privileged: given.privileged,
        readonly_rootfs: given.readonly_rootfs,
        no_new_privs: given.no_new_privs,
        capabilities: capabilities(given.capabilities.as_ref()).at("capabilities")?,
        masked_paths: paths(&given.masked_paths).at("masked_paths")?,
        readonly_paths: paths(&given.readonly_paths).at("readonly_paths")?,
        seccomp: seccomp(given.seccomp.as_ref(), &given.seccomp_profile_path)?,
        apparmor: apparmor(given.apparmor.as_ref(), &given.apparmor_profile)?,
        selinux: selinux(given.selinux_options.as_ref()).at("selinux_options")?,
        stated: true,
    })
}

/// Reads the namespaces of a pod. A missing option has CRI's default: the pod's own network, PID and IPC
/// namespaces, and the host's user namespace.
pub(super) fn sandbox_namespaces(
    given: &cri::NamespaceOption,
) -> Result<SandboxNamespaces, ParseError> {
    Ok(SandboxNamespaces {
        host_network: is_host(given.network).at("network")?,
        pid: match pid(given.pid).at("pid")? {
            PidMode::Target => {
                return Err(ParseError::invalid("cannot be TARGET in a sandbox")).at("pid");
            }
            mode => mode,
        },
        host_ipc: is_host(given.ipc).at("ipc")?,
        users: user_namespace::users(given)?,
    })
}

/// Reads which processes a container can see. For [`PidMode::Target`], also returns the other container's id.
///
/// Checks the modes for network and IPC, but does not return them: a container always joins these namespaces of
/// its sandbox.
pub(super) fn container_pid(given: &cri::NamespaceOption) -> Result<(PidMode, String), ParseError> {
    is_host(given.network).at("network")?;
    is_host(given.ipc).at("ipc")?;
    let mode = pid(given.pid).at("pid")?;
    let target = match mode {
        PidMode::Target => text::word(&given.target_id).at("target_id")?,
        PidMode::Pod | PidMode::Container | PidMode::Node => String::new(),
    };
    Ok((mode, target))
}

fn identity(
    (user, username): (Option<cri::Int64Value>, &str),
    group: Option<cri::Int64Value>,
    (groups, policy): (&[i64], i32),
) -> Result<Identity, ParseError> {
    let user = match (user, username) {
        (None, "") => RunAs::Image,
        (Some(uid), "") => RunAs::Uid(numeric_id(uid.value).at("run_as_user")?),
        (None, name) => RunAs::Name(user_name(name).at("run_as_username")?),
        (Some(_), _) => {
            return Err(ParseError::invalid("conflicts with run_as_user")).at("run_as_username");
        }
    };
    let group = group.map(|gid| numeric_id(gid.value)).transpose().at("run_as_group")?;
    let has_user = group.is_none() || user != RunAs::Image;
    ParseError::unless(has_user, "needs run_as_user or, for a container, run_as_username")
        .at("run_as_group")?;
    let supplemental_groups = text::each(groups, |gid| numeric_id(*gid));
    Ok(Identity {
        user,
        group,
        supplemental_groups: supplemental_groups.at("supplemental_groups")?,
        groups_policy: groups_policy(policy).at("supplemental_groups_policy")?,
    })
}

/// Checks that a user or group id is in the range that both the engine and Kubernetes allow.
fn numeric_id(id: i64) -> Result<i64, ParseError> {
    let is_valid = (0..=i64::from(i32::MAX)).contains(&id);
    ParseError::unless(is_valid, format!("is not a user or group id from 0 to 2147483647: {id}"))
        .map(|()| id)
}

/// Checks a user name. Refuses a colon, because the engine would read the text after it as a group.
fn user_name(name: &str) -> Result<String, ParseError> {
    text::checked(!name.contains(':'), "must be a user name without a colon", name)?;
    text::word(name)
}

fn groups_policy(number: i32) -> Result<GroupsPolicy, ParseError> {
    match cri::SupplementalGroupsPolicy::try_from(number) {
        Ok(cri::SupplementalGroupsPolicy::Merge) => Ok(GroupsPolicy::Merge),
        Ok(cri::SupplementalGroupsPolicy::Strict) => Ok(GroupsPolicy::Strict),
        Err(_) => Err(ParseError::invalid(format!("is not a known policy: {number}"))),
    }
}

fn capabilities(given: Option<&cri::Capability>) -> Result<Capabilities, ParseError> {
    let Some(given) = given else { return Ok(Capabilities::default()) };
    let normalised = |names: &[String]| text::each(names, |name| capability(name));
    Ok(Capabilities {
        add: normalised(&given.add_capabilities).at("add_capabilities")?,
        drop: normalised(&given.drop_capabilities).at("drop_capabilities")?,
        ambient: text::each(&given.add_ambient_capabilities, |name| ambient(name))
            .at("add_ambient_capabilities")?,
    })
}

/// The name of a capability in upper case, without `CAP_`. Does not check whether the capability exists.
fn capability(name: &str) -> Result<String, ParseError> {
    let upper = name.to_ascii_uppercase();
    let bare = upper.strip_prefix("CAP_").unwrap_or(&upper);
    let valid = bare.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    text::checked(valid && !bare.is_empty(), "is not a capability", name)?;
    Ok(bare.to_owned())
}

/// Checks an ambient capability. Refuses `ALL`, because dockbridge-runtime adds ambient capabilities by name.
fn ambient(name: &str) -> Result<String, ParseError> {
    match capability(name)?.as_str() {
        "ALL" => Err(ParseError::invalid("cannot be ALL: name each capability")),
        name => Ok(name.to_owned()),
    }
}

/// Reads the seccomp profile. The newer field has priority over the deprecated field.
fn seccomp(
    given: Option<&cri::SecurityProfile>,
    legacy: &str,
) -> Result<Option<Profile>, ParseError> {
    match given {
        Some(profile) => self::profile(profile, text::path).map(Some).at("seccomp"),
        None => legacy_profile(legacy, text::path).at("seccomp_profile_path"),
    }
}

fn apparmor(
    given: Option<&cri::SecurityProfile>,
    legacy: &str,
) -> Result<Option<Profile>, ParseError> {
    match given {
        Some(profile) => self::profile(profile, apparmor_name).map(Some).at("apparmor"),
        None => legacy_profile(legacy, apparmor_name).at("apparmor_profile"),
    }
}

/// The name of an AppArmor profile without the prefix of the deprecated field. The name may contain spaces.
fn apparmor_name(name: &str) -> Result<String, ParseError> {
    let name = name.strip_prefix(LOCALHOST).unwrap_or(name);
    if name.trim().is_empty() {
        return Err(ParseError::missing());
    }
    text::line(name)
}

fn profile(
    given: &cri::SecurityProfile,
    localhost: fn(&str) -> Result<String, ParseError>,
) -> Result<Profile, ParseError> {
    use cri::security_profile::ProfileType;
    match ProfileType::try_from(given.profile_type) {
        Ok(ProfileType::RuntimeDefault) => Ok(Profile::RuntimeDefault),
        Ok(ProfileType::Unconfined) => Ok(Profile::Unconfined),
        Ok(ProfileType::Localhost) => {
            localhost(&given.localhost_ref).map(Profile::Localhost).at("localhost_ref")
        }
        Err(_) => {
            let reason = format!("is not a known profile type: {}", given.profile_type);
            Err(ParseError::invalid(reason)).at("profile_type")
        }
    }
}

fn legacy_profile(
    text: &str,
    localhost: fn(&str) -> Result<String, ParseError>,
) -> Result<Option<Profile>, ParseError> {
    match text {
        "" => Ok(None),
        "runtime/default" | "docker/default" => Ok(Some(Profile::RuntimeDefault)),
        "unconfined" => Ok(Some(Profile::Unconfined)),
        other => match other.strip_prefix(LOCALHOST) {
            Some(rest) => localhost(rest).map(|name| Some(Profile::Localhost(name))),
            None => Err(ParseError::invalid(format!(
                "is not runtime/default, docker/default, unconfined or localhost/…: {}",
                text::quoted(other)
            ))),
        },
    }
}

fn selinux(given: Option<&cri::SeLinuxOption>) -> Result<Option<SelinuxLabel>, ParseError> {
    let Some(given) = given else { return Ok(None) };
    let label = SelinuxLabel {
        user: text::line(&given.user).at("user")?,
        role: text::line(&given.role).at("role")?,
        kind: text::line(&given.r#type).at("type")?,
        level: text::line(&given.level).at("level")?,
    };
    Ok((label != SelinuxLabel::default()).then_some(label))
}

/// Whether a network or IPC mode selects the host's namespace and not the pod's.
fn is_host(number: i32) -> Result<bool, ParseError> {
    match namespace_mode(number)? {
        cri::NamespaceMode::Pod => Ok(false),
        cri::NamespaceMode::Node => Ok(true),
        mode @ (cri::NamespaceMode::Container | cri::NamespaceMode::Target) => {
            Err(ParseError::invalid(format!("cannot be {}", mode.as_str_name())))
        }
    }
}

fn pid(number: i32) -> Result<PidMode, ParseError> {
    Ok(match namespace_mode(number)? {
        cri::NamespaceMode::Pod => PidMode::Pod,
        cri::NamespaceMode::Container => PidMode::Container,
        cri::NamespaceMode::Node => PidMode::Node,
        cri::NamespaceMode::Target => PidMode::Target,
    })
}

/// In the deprecated fields, the prefix that marks a profile of this host.
const LOCALHOST: &str = "localhost/";

//! Parses user namespaces and id-mapped mounts: how ids in the pod map to ids on the host.
//!
//! Kubernetes gives a pod one range of ids, which starts with root. dockbridge refuses other mappings.

use super::{
    error::{At, ParseError},
    text,
};
use crate::{
    model::user_namespace::{IdMapping, IdMappings},
    wire::cri,
};

/// The user namespace of a pod or container. A pod with a user namespace must not use the host's pid or IPC
/// namespace, in which root of the user namespace has no privileges.
pub(super) fn users(given: &cri::NamespaceOption) -> Result<Option<IdMappings>, ParseError> {
    let Some(stated) = &given.userns_options else { return Ok(None) };
    let users = requested(stated).at("userns_options")?;
    if users.is_some() {
        for (field, mode) in [("pid", given.pid), ("ipc", given.ipc)] {
            let is_own = namespace_mode(mode).at(field)? != cri::NamespaceMode::Node;
            let reason = "cannot be the host's namespace in a pod with its own user namespace";
            ParseError::unless(is_own, reason).at(field)?;
        }
    }
    Ok(users)
}

/// The requested mappings. `None` means the host's ids.
fn requested(given: &cri::UserNamespace) -> Result<Option<IdMappings>, ParseError> {
    match namespace_mode(given.mode).at("mode")? {
        cri::NamespaceMode::Node if given.uids.is_empty() && given.gids.is_empty() => Ok(None),
        cri::NamespaceMode::Node => {
            let field = if given.uids.is_empty() { "gids" } else { "uids" };
            Err(ParseError::invalid("must be empty if mode is NODE")).at(field)
        }
        cri::NamespaceMode::Pod => both(&given.uids, &given.gids, ("uids", "gids")).map(Some),
        mode @ (cri::NamespaceMode::Container | cri::NamespaceMode::Target) => {
            Err(ParseError::invalid(format!("cannot be {}", mode.as_str_name()))).at("mode")
        }
    }
}

pub(super) fn namespace_mode(number: i32) -> Result<cri::NamespaceMode, ParseError> {
    cri::NamespaceMode::try_from(number)
        .map_err(|_| ParseError::invalid(format!("is not a known namespace mode: {number}")))
}

/// The mappings of a mount. `None` if the request has none for the mount.
pub(super) fn of_mount(given: &cri::Mount) -> Result<Option<IdMappings>, ParseError> {
    let (uids, gids) = (&given.uid_mappings, &given.gid_mappings);
    if uids.is_empty() && gids.is_empty() {
        return Ok(None);
    }
    both(uids, gids, ("uidMappings", "gidMappings")).map(Some)
}

/// Checks an option that dockbridge-runtime will add to a mount. Accepts only flags, and no option that could
/// contradict another field of the mount.
pub(super) fn mount_option(option: &str) -> Result<String, ParseError> {
    let is_known = OPTIONS.split(", ").any(|known| known == option);
    text::checked(is_known, &format!("is not one of {OPTIONS}"), option)
}

fn both(
    uids: &[cri::IdMapping],
    gids: &[cri::IdMapping],
    (uids_field, gids_field): (&str, &str),
) -> Result<IdMappings, ParseError> {
    Ok(IdMappings { uids: one(uids).at(uids_field)?, gids: one(gids).at(gids_field)? })
}

fn one(given: &[cri::IdMapping]) -> Result<IdMapping, ParseError> {
    let [cri::IdMapping { host_id: host, container_id, length }] = *given else {
        return Err(ParseError::invalid(format!("must be one range, not {}", given.len())));
    };
    let check = |is_valid, reason: &str, field: &str| {
        ParseError::unless(is_valid, reason).at(field).at("[0]")
    };
    check(container_id == 0, "must be 0: the range begins with root", "container_id")?;
    check(host != 0, "must not be 0: that is the host's root", "host_id")?;
    check(length != 0, "must not be 0", "length")?;
    // The first id after the range must fit into 32 bits, because the largest 32-bit number is not a valid id.
    check(
        host.checked_add(length).is_some(),
        "must not exceed 4294967295 when added to host_id",
        "length",
    )?;
    Ok(IdMapping { host, length })
}

const OPTIONS: &str = "\
    noexec, exec, nosuid, suid, nodev, dev, noatime, nodiratime, relatime, norelatime, \
    strictatime, nostrictatime";

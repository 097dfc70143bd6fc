//! Checks that a thread of a container checkpoint has only rights that the new container gives to its own processes.

use super::{
    config::Config,
    messages::{Credentials, Owner, Thread},
};
use crate::host::capability;

pub(super) fn check(thread: &Thread, config: &Config) -> Result<(), String> {
    let credentials =
        thread.credentials.as_ref().ok_or("a checkpointed process has no credentials")?;
    check_identity(credentials, config)?;
    check_capabilities(credentials, config)?;
    let process = &config.process;
    if process.no_new_privileges && credentials.no_new_privileges != Some(1) {
        return Err(
            "a checkpointed process lacks no_new_privs, which the new container has".to_owned()
        );
    }
    if credentials.secure_bits != 0 && !config.allows("CAP_SETPCAP") {
        return Err(
            "a checkpointed process has securebits, and the new container has no CAP_SETPCAP"
                .to_owned(),
        );
    }
    if credentials.apparmor_namespaces.as_ref().is_some_and(|profiles| !profiles.is_empty()) {
        return Err("the checkpoint has its own AppArmor profiles".to_owned());
    }
    // CRIU gives the new container's label only to threads that had a label.
    let is_labelled = process.confining_profile().is_some() || !process.selinux_label.is_empty();
    if is_labelled && credentials.label.as_ref().is_none_or(String::is_empty) {
        return Err(
            "a checkpointed process has no AppArmor profile or SELinux label, and the new \
                    container has one"
                .to_owned(),
        );
    }
    let is_preferred = thread.nice.is_some_and(|nice| nice < 0)
        || thread.policy.is_some_and(|policy| REAL_TIME.contains(&policy));
    if is_preferred && !config.allows("CAP_SYS_NICE") {
        return Err("a checkpointed process has a negative nice value or a real-time policy, and \
                    the new container has no CAP_SYS_NICE"
            .to_owned());
    }
    Ok(())
}

/// Checks that a thread has the new container's user and groups, unless the container runs as root with `CAP_SETUID`
/// (for users) or `CAP_SETGID`. If it does not run as root, also refuses a user that a set-user-ID program has set.
fn check_identity(has: &Credentials, config: &Config) -> Result<(), String> {
    let user = &config.process.user;
    let may = |capability| user.uid == 0 && config.allows(capability);
    let uids = [has.uid, has.effective_uid, has.saved_uid, has.file_uid];
    if let Some(other) = uids.iter().find(|uid| **uid != user.uid && !may("CAP_SETUID")) {
        return Err(format!(
            "a checkpointed process has user id {other}, but the new container's user id is {}",
            user.uid
        ));
    }
    let gids = [has.gid, has.effective_gid, has.saved_gid, has.file_gid];
    let is_own = |gid: &&u32| **gid == user.gid || user.additional_gids.contains(gid);
    let mut others = gids.iter().filter(|gid| **gid != user.gid);
    let other = others.next().or_else(|| has.groups.iter().find(|gid| !is_own(gid)));
    match other {
        Some(other) if !may("CAP_SETGID") => Err(format!(
            "a checkpointed process has group id {other}, which the new container lacks or has only as a supplementary group"
        )),
        _ => Ok(()),
    }
}

/// Checks the process that gets signals about an open file (`F_SETOWN`), and the user who requested the signals.
/// CRIU switches to the ids of that user before it requests the signals again.
pub(super) fn check_signal_owner(owner: &Owner, config: &Config) -> Result<(), String> {
    let user = &config.process.user;
    let may_change = user.uid == 0 && config.allows("CAP_SETUID");
    let is_own = [owner.uid, owner.effective_uid].iter().all(|uid| *uid == user.uid);
    // In a pid namespace of the pod or the node, the pid may now belong to another process.
    if owner.pid != 0 && (!config.has_own_processes() || !is_own && !may_change) {
        return Err(
            "an open file has F_SETOWN for another user, or in a shared pid namespace".to_owned()
        );
    }
    Ok(())
}

fn check_capabilities(has: &Credentials, config: &Config) -> Result<(), String> {
    let allowed = &config.process.capabilities;
    let bounding = capability::bits(&allowed.bounding);
    // If the container does not run as root, its first program has only ambient capabilities.
    let is_root = config.process.user.uid == 0;
    let own = if is_root { bounding } else { capability::bits(&allowed.ambient) };
    for (set, allowed) in [
        (&has.permitted, own),
        (&has.effective, own),
        (&has.ambient, own),
        (&has.inheritable, bounding),
        (&has.bounding, bounding),
    ] {
        let more = joined(set) & !allowed;
        if more != 0 || set.len() > 2 {
            let name = capability::lowest(more).unwrap_or("an unknown one".to_owned());
            return Err(format!(
                "a checkpointed process has a capability that processes of the new container do not have: {name}"
            ));
        }
    }
    Ok(())
}

fn joined(words: &[u32]) -> u64 {
    words.iter().take(2).rev().fold(0, |bits, word| bits << 32 | u64::from(*word))
}

/// Real-time scheduling policies: SCHED_FIFO, SCHED_RR and SCHED_DEADLINE.
const REAL_TIME: [u32; 3] = [1, 2, 6];

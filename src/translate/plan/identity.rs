//! Determines user and groups of a container's process, as CRI defines them.
//!
//! The engine has two rules for groups. If `User` (of the create request, otherwise of the image) has no group, the
//! engine adds the groups that the image lists for the user, which is CRI's Merge. If `User` has a group, the engine
//! adds no groups of the image, which is CRI's Strict. If the rule that applies does not give the result that CRI
//! defines, dockbridge looks up user and groups in the image and sends numbers.

use std::collections::BTreeSet;

use super::defaults::none_if_empty;
use crate::{
    error::Failure,
    model::{
        accounts::{Account, Accounts, ProcessUser},
        security::{GroupsPolicy, Identity, RunAs},
    },
};

/// User and groups of a container, for the create request and for the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PlannedIdentity {
    /// `User` of the create request; `None` means the image's user.
    pub(super) user: Option<String>,
    /// `GroupAdd` of the create request.
    pub(super) groups: Option<Vec<String>>,
    /// User and groups as numbers; `None` if the image's accounts are unknown.
    pub(super) process: Option<ProcessUser>,
}

/// Whether `resolve` needs the image's `/etc/passwd` and `/etc/group`. `image_user` is the image's `Config.User`.
pub fn needs_accounts(requested: &Identity, image_user: &str) -> bool {
    let image_group = image_user.split(':').nth(1).is_some_and(|group| !group.is_empty());
    match requested.groups_policy {
        GroupsPolicy::Merge => {
            requested.group.is_some() || (requested.user == RunAs::Image && image_group)
        }
        GroupsPolicy::Strict => requested.group.is_none(),
    }
}

/// User and groups of a process. `image_user` is `Config.User` of the image.
///
/// # Errors
/// The image lacks a user or group with the given name, a number is out of range, a group is ambiguous, or `accounts`
/// is needed but `None`.
pub(super) fn resolve(
    requested: &Identity,
    image_user: &str,
    accounts: Option<&Accounts>,
) -> Result<PlannedIdentity, Failure> {
    let Some(accounts) = accounts else {
        return if needs_accounts(requested, image_user) {
            Err(Failure::unmet(
                "cannot resolve the user's groups: the image's /etc/passwd and /etc/group are not known",
            ))
        } else {
            Ok(as_requested(requested))
        };
    };
    let user = ResolvedUser::new(requested, image_user, accounts)?;
    let process = user.process(requested, accounts)?;
    let merge = requested.groups_policy == GroupsPolicy::Merge;
    let planned = if merge && user.group.is_none() && !accounts.is_ambiguous {
        as_requested(requested)
    } else {
        numeric(&process)
    };
    Ok(PlannedIdentity { process: Some(process), ..planned })
}

/// Leaves it to the engine to resolve the requested user and groups. Pause containers always use this plan.
pub(super) fn as_requested(requested: &Identity) -> PlannedIdentity {
    let user = match &requested.user {
        RunAs::Image => None,
        RunAs::Uid(uid) => Some(uid.to_string()),
        RunAs::Name(name) => Some(name.clone()),
    };
    let user = user.map(|user| match requested.group {
        Some(group) => format!("{user}:{group}"),
        None => user,
    });
    PlannedIdentity { user, groups: none_if_empty(&requested.supplemental_groups), process: None }
}

/// Sends only numbers, so that the engine resolves no names.
fn numeric(process: &ProcessUser) -> PlannedIdentity {
    let others = process.groups.iter().filter(|gid| **gid != process.gid);
    PlannedIdentity {
        user: Some(format!("{}:{}", process.uid, process.gid)),
        groups: none_if_empty(&others.collect::<Vec<_>>()),
        process: None,
    }
}

struct ResolvedUser<'a> {
    uid: u32,
    account: Option<&'a Account>,
    group: Option<u32>,
}

impl<'a> ResolvedUser<'a> {
    fn new(
        requested: &Identity,
        image_user: &str,
        accounts: &'a Accounts,
    ) -> Result<Self, Failure> {
        let (field, user, group) = match &requested.user {
            RunAs::Uid(uid) => ("run_as_user", uid.to_string(), None),
            RunAs::Name(name) => ("run_as_username", name.clone(), None),
            RunAs::Image => {
                let mut parts = image_user.split(':').map(str::to_owned);
                ("the image's User", parts.next().unwrap_or_default(), parts.next())
            }
        };
        let (uid, account) = self::user(&user, accounts)
            .ok_or_else(|| unknown(field, "/etc/passwd has no user", &user))?;
        let group = requested.group.map(|gid| gid.to_string()).or(group);
        let group = group.filter(|group| !group.is_empty());
        let group = group.map(|group| {
            self::group(&group, accounts)
                .ok_or_else(|| unknown(field, "/etc/group has no group", &group))
        });
        Ok(Self { uid, account, group: group.transpose()? })
    }

    fn process(&self, requested: &Identity, accounts: &Accounts) -> Result<ProcessUser, Failure> {
        let own = self.account.map(|account| account.gid);
        let gid = self.group.or(own).unwrap_or_default();
        let mut groups = BTreeSet::from([gid]);
        for gid in &requested.supplemental_groups {
            let group = gid.to_string();
            let unknown = |_| unknown("supplemental_groups", "/etc/group has no group", &group);
            groups.insert(u32::try_from(*gid).map_err(unknown)?);
        }
        if let (GroupsPolicy::Merge, Some(account)) = (requested.groups_policy, self.account) {
            groups.extend(accounts.groups_of(&account.name));
        }
        for gid in groups.iter().copied() {
            if accounts.group_named(&gid.to_string()).is_some_and(|other| other != gid) {
                // Another group has this number as its name. runc before 1.2 would choose that group.
                return Err(Failure::invalid(format!(
                    "group {gid} is ambiguous: the image's /etc/group has another group with this number as its name"
                )));
            }
        }
        Ok(ProcessUser { uid: self.uid, gid, groups: groups.into_iter().collect() })
    }
}

fn unknown(field: &str, lack: &str, name: &str) -> Failure {
    Failure::invalid(format!("{field}: the image's {lack} {name:?}"))
}

/// Finds a user as the engine does: a number is an id even if it is also a name, and an empty text is root.
fn user<'a>(text: &str, accounts: &'a Accounts) -> Option<(u32, Option<&'a Account>)> {
    let text = if text.is_empty() { "0" } else { text };
    let Ok(number) = text.parse::<i64>() else {
        return accounts.named(text).map(|account| (account.uid, Some(account)));
    };
    let uid = u32::try_from(number).ok()?;
    let account = accounts.numbered(uid);
    (account.is_some() || i32::try_from(uid).is_ok()).then_some((uid, account))
}

/// Finds a group as the engine does: a number is an id.
fn group(text: &str, accounts: &Accounts) -> Option<u32> {
    match text.parse::<i64>() {
        Ok(number) => i32::try_from(number).ok().and_then(|gid| u32::try_from(gid).ok()),
        Err(_) => accounts.group_named(text),
    }
}

#[cfg(test)]
mod tests;

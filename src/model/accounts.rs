//! The users and groups of an image: its `/etc/passwd` and `/etc/group`.
//!
//! Of several lines with the same name or number, dockbridge finds the first, as Docker does. But if Docker cannot
//! parse a number, it uses 0, which is root. dockbridge leaves out a line whose number it cannot parse.

use serde::{Deserialize, Serialize};

/// The accounts of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// The users, in the order of `/etc/passwd`.
    pub users: Vec<Account>,
    pub groups: Vec<Group>,
    /// Whether `/etc/passwd` or `/etc/group` has a line that dockbridge cannot parse but the engine might accept.
    pub is_ambiguous: bool,
}

/// The fields of a line of `/etc/passwd` that determine the ids of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

/// A line of `/etc/group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub name: String,
    pub gid: u32,
    /// The login names of the group's members. The list may lack users whose primary group this group is.
    pub members: Vec<String>,
}

/// The user and groups of a process: CRI's `LinuxContainerUser`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUser {
    pub uid: u32,
    pub gid: u32,
    /// All groups of the process, including the primary group, in ascending order without duplicates.
    pub groups: Vec<u32>,
}

impl ProcessUser {
    /// Adds groups, and keeps the list sorted and without duplicates.
    pub fn with_groups(mut self, more: &[u32]) -> Self {
        self.groups.extend(more);
        self.groups.sort_unstable();
        self.groups.dedup();
        self
    }
}

impl Accounts {
    /// Parses `/etc/passwd` and `/etc/group`. For a missing file, the caller passes an empty text. Malformed
    /// lines are left out, and set [`Self::is_ambiguous`].
    pub fn parse(passwd: &[u8], group: &[u8]) -> Self {
        let (users, groups) = (lines(passwd, account), lines(group, self::group));
        let is_ambiguous = users.iter().any(Option::is_none) || groups.iter().any(Option::is_none);
        Self {
            users: users.into_iter().flatten().collect(),
            groups: groups.into_iter().flatten().collect(),
            is_ambiguous,
        }
    }

    /// The first account with this login name.
    pub fn named(&self, name: &str) -> Option<&Account> {
        self.users.iter().find(|user| user.name == name)
    }

    /// The first account with this user id.
    pub fn numbered(&self, uid: u32) -> Option<&Account> {
        self.users.iter().find(|user| user.uid == uid)
    }

    /// The id of the first group with this name.
    pub fn group_named(&self, name: &str) -> Option<u32> {
        self.groups.iter().find(|group| group.name == name).map(|group| group.gid)
    }

    /// The ids of the groups that have the login name `name` as a member.
    pub fn groups_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = u32> + 'a {
        let listed = move |group: &&Group| group.members.iter().any(|member| member == name);
        self.groups.iter().filter(listed).map(|group| group.gid)
    }
}

/// Reads each line that is not blank. Invalid lines become None.
fn lines<T>(file: &[u8], read: fn(&str) -> Option<T>) -> Vec<Option<T>> {
    let text = String::from_utf8_lossy(file);
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).map(read).collect()
}

fn account(line: &str) -> Option<Account> {
    let mut fields = fields(line)?;
    let name = fields.next()?.to_owned();
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some(Account { name, uid, gid })
}

fn group(line: &str) -> Option<Group> {
    let mut fields = fields(line)?;
    let name = fields.next()?.to_owned();
    let gid = fields.nth(1)?.parse().ok()?;
    let members = fields.next().unwrap_or_default().split(',');
    let members = members.filter(|member| !member.is_empty()).map(str::to_owned).collect();
    Some(Group { name, gid, members })
}

fn fields(line: &str) -> Option<std::str::Split<'_, char>> {
    (!line.starts_with('#')).then(|| line.split(':'))
}

#[cfg(test)]
mod tests;

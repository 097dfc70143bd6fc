//! Who is known inside an image: its `/etc/passwd` and `/etc/group`.

use serde::{Deserialize, Serialize};

/// The accounts of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Lines of `/etc/passwd`, in their order.
    pub users: Vec<Account>,
    /// Lines of `/etc/group`, in their order.
    pub groups: Vec<Group>,
}

/// A line of `/etc/passwd`, as far as a process needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
}

/// A line of `/etc/group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Group id.
    pub gid: u32,
    /// Login names of those who belong to it beside their primary group.
    pub members: Vec<String>,
}

/// Who a process is: `LinuxContainerUser` of CRI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUser {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All its groups, the primary one among them, ascending, each once.
    pub groups: Vec<u32>,
}

//! Capabilities of the engine's process and of dockbridge, read from `/proc`.
//!
//! Nested engines (CI jobs, Docker in Docker, rootless) often lack `CAP_SYS_RESOURCE`. The OCI runtime then
//! fails with an unclear error if a container requests a lower `oom_score_adj` than its own. So dockbridge
//! raises the value to what is possible.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process,
};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

/// A capability that a root process may lack: capabilities(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    SysAdmin,
    NetAdmin,
}

impl Capability {
    /// The name in capabilities(7) and systemd.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::NetAdmin => "CAP_NET_ADMIN",
        }
    }

    const fn bit(self) -> u64 {
        match self {
            Self::SysAdmin => 1 << 21,
            Self::NetAdmin => 1 << 12,
        }
    }
}

/// The required capabilities that this process lacks. All of them if `/proc` cannot be read.
pub fn missing() -> Vec<Capability> {
    missing_in(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// [`missing`] for the process of this `status`.
pub fn missing_in(status: &str) -> Vec<Capability> {
    let effective = effective(status).unwrap_or(0);
    let needed = [Capability::SysAdmin, Capability::NetAdmin];
    needed.into_iter().filter(|one| effective & one.bit() == 0).collect()
}

/// The lowest `oom_score_adj` that the engine behind `engine_socket` can give a process: -1000 with
/// `CAP_SYS_RESOURCE`, otherwise its own score or 0, whichever is higher.
///
/// The kernel reports the process that listens on the socket. Without one, or in another pid
/// namespace, dockbridge's own capabilities count. Never blocks on the engine: opens a connection
/// and sends nothing.
pub fn oom_floor(engine_socket: &Path) -> i64 {
    let engine = listening_pid(engine_socket).unwrap_or_else(process::id);
    floor_of(&PathBuf::from(format!("/proc/{engine}")))
        .or_else(|| floor_of(Path::new("/proc/self")))
        .unwrap_or(0)
}

/// None if the process cannot be read.
fn floor_of(process: &Path) -> Option<i64> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let map = fs::read_to_string(process.join("uid_map")).ok()?;
    if may_lower(&status, &map) {
        return Some(LOWEST_SCORE);
    }
    let own = fs::read_to_string(process.join("oom_score_adj")).ok();
    Some(own.and_then(|text| text.trim().parse().ok()).unwrap_or(0).max(0))
}

/// The kernel requires the capability in the initial user namespace. The root of another user namespace has
/// all bits set, without effect.
pub(super) fn may_lower(status: &str, uid_map: &str) -> bool {
    let initial = uid_map.split_whitespace().eq(["0", "0", "4294967295"]);
    initial && effective(status).is_some_and(|bits| bits & SYS_RESOURCE != 0)
}

fn effective(status: &str) -> Option<u64> {
    let digits = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(digits.trim(), 16).ok()
}

/// The pid of the process that listens on a socket, if it is visible in this pid namespace. Opens a
/// connection and sends nothing.
pub fn listening_pid(socket: &Path) -> Option<u32> {
    let stream = UnixStream::connect(socket).ok()?;
    let pid = getsockopt(&stream, PeerCredentials).ok()?.pid();
    u32::try_from(pid).ok().filter(|pid| *pid != 0)
}

const LOWEST_SCORE: i64 = -1000;
const SYS_RESOURCE: u64 = 1 << 24;

#[cfg(test)]
mod tests;

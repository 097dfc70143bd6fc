//! The Linux capabilities of the engine's process and of dockbridge, and the names of capabilities.
//!
//! Nested engines (CI jobs, Docker in Docker, rootless) often lack `CAP_SYS_RESOURCE`. Without `CAP_SYS_RESOURCE`,
//! the OCI runtime fails with an unclear error if a container requests a lower `oom_score_adj` than the kernel permits.
//! So dockbridge raises a requested score that is below [`oom_floor`] to that value.

use std::{fs, os::unix::net::UnixStream, path::Path};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::{
    process::Pid,
    thread::{CapabilitySet, capabilities},
};

/// The required capabilities that this process lacks; all, if the kernel does not report capabilities.
pub fn missing() -> Vec<&'static str> {
    missing_in(effective(None).unwrap_or(CapabilitySet::empty()))
}

pub(super) fn missing_in(effective: CapabilitySet) -> Vec<&'static str> {
    let needed =
        [(CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"), (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN")];
    let missing = needed.into_iter().filter(|(capability, _)| !effective.contains(*capability));
    missing.map(|(_, name)| name).collect()
}

/// The capabilities with these names, such as `CAP_KILL`, as bits in the order of the kernel's numbers. Unknown
/// names have no bit.
pub fn bits(names: &[String]) -> u64 {
    let flag = |name: &String| CapabilitySet::from_name(name.strip_prefix("CAP_")?);
    names.iter().filter_map(flag).collect::<CapabilitySet>().bits()
}

/// The name of the known capability with the lowest number in `bits`.
pub fn lowest(bits: u64) -> Option<String> {
    let (name, _) = CapabilitySet::from_bits_retain(bits).iter_names().next()?;
    Some(format!("CAP_{name}"))
}

fn effective(process: Option<Pid>) -> Option<CapabilitySet> {
    Some(capabilities(process).ok()?.effective)
}

/// The lowest `oom_score_adj` that dockbridge lets the engine behind `engine_socket` give a process: -1000 if the
/// process that made the socket listen ([`listening_pid`]) has `CAP_SYS_RESOURCE` in the initial user namespace,
/// otherwise the score of that process or 0, whichever is higher.
///
/// If dockbridge cannot see the process that made the socket listen, dockbridge's own capabilities and score count.
/// Opens a connection, but sends nothing.
pub fn oom_floor(engine_socket: &Path) -> i64 {
    let engine = listening_pid(engine_socket).and_then(|pid| i32::try_from(pid).ok());
    let engine = engine.and_then(Pid::from_raw);
    engine.and_then(|engine| floor_of(Some(engine))).or_else(|| floor_of(None)).unwrap_or(0)
}

fn floor_of(process: Option<Pid>) -> Option<i64> {
    let name = process.map_or("self".to_owned(), |pid| pid.as_raw_nonzero().to_string());
    let directory = Path::new("/proc").join(name);
    let map = fs::read_to_string(directory.join("uid_map")).ok()?;
    let own = fs::read_to_string(directory.join("oom_score_adj")).ok();
    Some(floor(effective(process)?, &map, &own.unwrap_or_default()))
}

/// Without `CAP_SYS_RESOURCE` in the initial user namespace, a process cannot lower its score below the last value that
/// a process with this capability has set. Root of another user namespace also has `CAP_SYS_RESOURCE`, but there the
/// capability has no effect on scores.
pub(super) fn floor(effective: CapabilitySet, uid_map: &str, own: &str) -> i64 {
    let initial = uid_map.split_whitespace().eq(["0", "0", "4294967295"]);
    if initial && effective.contains(CapabilitySet::SYS_RESOURCE) {
        return LOWEST_SCORE;
    }
    own.trim().parse().unwrap_or(0).max(0)
}

/// The pid of the process that made the socket listen (systemd for a socket unit). None if connecting fails, or the
/// process is in a pid namespace that dockbridge cannot see.
pub fn listening_pid(socket: &Path) -> Option<u32> {
    let stream = UnixStream::connect(socket).ok()?;
    let pid = getsockopt(&stream, PeerCredentials).ok()?.pid();
    u32::try_from(pid).ok().filter(|pid| *pid != 0)
}

const LOWEST_SCORE: i64 = -1000;

#[cfg(test)]
mod tests;

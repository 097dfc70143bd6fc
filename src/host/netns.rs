//! Pins network namespaces, and runs work inside them.
//!
//! Here, a pin is a bind mount of a namespace (for example `/proc/<pid>/ns/net`) onto an empty file. A pin keeps a
//! network namespace alive after its last process has ended, so that CNI plugins can still clean up inside it.

use std::{
    fs::{self, File, OpenOptions},
    io,
    net::IpAddr,
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    thread,
};

use nix::{
    errno::Errno,
    ifaddrs::getifaddrs,
    libc,
    mount::{MsFlags, mount},
    sched::{CloneFlags, setns, unshare},
    sys::{
        socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket},
        statfs::{NSFS_MAGIC, statfs},
    },
};

use super::{
    error::{HostError, OrCannot as _},
    file::{self, Durability},
    mounts::unmount_all,
    processes::Processes,
};

/// The directories with the pins of pods' network namespaces. Each pin is named after the id of its pod.
#[derive(Clone, Debug)]
pub struct PinDirectories {
    directory: PathBuf,
    /// The directory `netns` of the run directory. If the run directory is the default, only old pins are in `netns`.
    earlier: PathBuf,
}

impl PinDirectories {
    /// With the default run directory, new pins are in `/run/netns`, because CNI daemons that run in pods (Multus,
    /// Kube-OVN) mount no other directory of the host for pins. With another run directory, all pins are below that
    /// directory, because several dockbridges may run on the host.
    pub fn of(run_dir: &Path) -> Self {
        let earlier = run_dir.join("netns");
        let is_default = run_dir == Path::new(DEFAULT_RUN_DIR);
        Self {
            directory: if is_default { SHARED_DIRECTORY.into() } else { earlier.clone() },
            earlier,
        }
    }

    /// The path of the pin of a pod's network namespace. Blocks for a moment.
    pub fn path(&self, pod: &str) -> PathBuf {
        let earlier = self.earlier.join(pod);
        if earlier.exists() { earlier } else { self.directory.join(pod) }
    }

    /// The directories that may contain pins. The first directory may also contain pins of other programs.
    pub fn all(&self) -> [&Path; 2] {
        [&self.directory, &self.earlier]
    }
}

/// Pins the network namespace of process `pid` at `at`. Creates missing parent directories.
///
/// Also succeeds if this namespace is already pinned at `at`. Replaces the pin of another namespace.
///
/// # Errors
/// The process has ended, mounting is denied, or the process is in dockbridge's own network namespace: its
/// pid may have been reused, and plugins must never use the host's namespace.
pub fn pin(pid: u32, at: &Path) -> Result<(), HostError> {
    let source = PathBuf::from(format!("/proc/{pid}/ns/net"));
    let wanted = identity(&source)?;
    if wanted == identity(Path::new(OWN_NAMESPACE))? {
        let reason = io::Error::other("the process shares the host's network namespace");
        return Err(HostError::new("pin", &source, reason));
    }
    if is_pinned(at) {
        if identity(at)? == wanted {
            return Ok(());
        }
        unpin(at)?;
    }
    mount_pin(&source, at)?;
    // The pid may have been reused between the check and the mount.
    if identity(at)? == wanted {
        return Ok(());
    }
    unpin(at)?;
    Err(HostError::new("pin", &source, io::Error::other("the process has ended")))
}

/// Creates an empty network namespace and pins it at `at`. Replaces an existing pin at `at`.
///
/// # Errors
/// Access is denied, or a limit of the kernel is reached (`user.max_net_namespaces`).
pub fn make(at: &Path) -> Result<(), HostError> {
    unpin(at)?;
    let made = on_own_thread(THREAD, || {
        unshare(CloneFlags::CLONE_NEWNET)?;
        Ok(mount_pin(Path::new(OF_THREAD), at))
    });
    made.or_cannot("make", Path::new(OF_THREAD))?
}

/// Whether the process `pid` is in the network namespace that is pinned at `at`.
pub fn is_of(pid: u32, at: &Path) -> bool {
    let of_process = identity(Path::new(&format!("/proc/{pid}/ns/net")));
    of_process.is_ok_and(|process| identity(at).is_ok_and(|pinned| process == pinned))
}

/// Whether a visible process is in the network namespace at `at`. Fails if processes cannot be listed.
pub fn is_used(at: &Path) -> Result<bool, HostError> {
    if !is_pinned(at) {
        return Ok(false);
    }
    let table = Path::new("/proc");
    let pids = Processes::new(table).pids().or_cannot("list processes in", table)?;
    Ok(pids.into_iter().any(|pid| is_of(pid, at)))
}

/// Removes the pin at `at` and its file.
///
/// Also succeeds if the pin, its file or its directory does not exist. Fails if `at` is a directory.
pub fn unpin(at: &Path) -> Result<(), HostError> {
    // Unmounts all mounts at `at`, because a pin that was mounted over another pin did not replace it.
    match unmount_all(at) {
        Ok(()) => {}
        // dockbridge has no permission to unmount, but no namespace is pinned at `at`.
        Err(Errno::EPERM) if !is_pinned(at) => {}
        Err(e) => return Err(HostError::new("unmount", at, e)),
    }
    file::remove_if_present(at, Durability::Written).map(|_| ())
}

/// Whether `at` is a namespace: a pin or a path such as `/proc/<pid>/ns/net`.
pub fn is_pinned(at: &Path) -> bool {
    statfs(at).is_ok_and(|facts| facts.filesystem_type() == NSFS_MAGIC)
}

/// Whether it is certain that `at` is not a namespace. False if reading `at` is not permitted.
pub fn is_gone(at: &Path) -> bool {
    match statfs(at) {
        Ok(facts) => facts.filesystem_type() != NSFS_MAGIC,
        Err(error) => matches!(error, Errno::ENOENT | Errno::ENOTDIR | Errno::ESRCH),
    }
}

/// Whether `at` leads to dockbridge's own network namespace, which on a node is the host's. A path through
/// `/proc/<pid>` may lead to the host's namespace after the pid was reused.
pub fn is_our_own(at: &Path) -> bool {
    identity(Path::new(OWN_NAMESPACE)).is_ok_and(|own| identity(at).is_ok_and(|other| own == other))
}

/// Sets `lo` up in the namespace at `at`. The kernel then adds the addresses of `lo`. Fails if `at` is not a namespace.
pub fn raise_loopback(at: &Path) -> Result<(), HostError> {
    within(at, raise_own_loopback)
}

/// The addresses of an interface in the namespace at `at`, without loopback and link-local addresses.
pub fn addresses(at: &Path, interface: &str) -> Result<Vec<IpAddr>, HostError> {
    within(at, || {
        let all = getifaddrs()?.filter(|one| one.interface_name == interface);
        let ips = all.filter_map(|one| {
            let address = one.address?;
            let v4 = address.as_sockaddr_in().map(|ip| IpAddr::V4(ip.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|ip| IpAddr::V6(ip.ip())))
        });
        let is_local = |ip: &IpAddr| match ip {
            IpAddr::V4(ip) => ip.is_link_local() || ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_unicast_link_local() || ip.is_loopback(),
        };
        Ok(ips.filter(|ip| !is_local(ip)).collect())
    })
}

/// Runs `work` in a new thread inside the network namespace at `at`. Sockets that `work` opens stay in the namespace.
///
/// # Errors
/// There is no namespace at `at`, access is denied, or `work` fails.
pub fn within<T: Send>(
    at: &Path,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> Result<T, HostError> {
    let namespace = open(at)?;
    let entered = on_own_thread(THREAD, || {
        setns(&namespace, CloneFlags::CLONE_NEWNET)?;
        work()
    });
    entered.or_cannot("work in network namespace", at)
}

/// Runs `work` on a new thread that ends afterwards, because `work` changes its thread, for example the
/// thread's namespace. If `work` hangs, the thread's `name` in `/proc` shows what hangs.
pub(super) fn on_own_thread<T: Send>(
    name: &str,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the work panicked")))
    })
}

fn open(at: &Path) -> Result<File, HostError> {
    if !is_pinned(at) && at.exists() {
        let reason = io::Error::new(io::ErrorKind::InvalidInput, "not a namespace");
        return Err(HostError::new("enter", at, reason));
    }
    File::open(at).or_cannot("open", at)
}

/// Bind-mounts the namespace at `source` onto `at`. The caller must have removed an older pin at `at`,
/// because a second mount would be stacked on it. Fails if mounting is not permitted.
pub fn mount_pin(source: &Path, at: &Path) -> Result<(), HostError> {
    if let Some(parent) = at.parent() {
        file::ensure_directory(parent, 0o755)?;
    }
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o444)
        .custom_flags(libc::O_NOFOLLOW)
        .open(at)
        .or_cannot("create", at)?;
    mount(Some(source), at, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .inspect_err(|_| drop(fs::remove_file(at)))
        .or_cannot("bind a namespace to", at)
}

/// The device and the inode of a namespace, which identify the namespace as long as it exists.
fn identity(path: &Path) -> Result<(u64, u64), HostError> {
    let facts = fs::metadata(path).or_cannot("stat", path)?;
    Ok((facts.dev(), facts.ino()))
}

/// Sets `lo`, always the first interface of a namespace, up in the calling thread's namespace (rtnetlink(7)).
fn raise_own_loopback() -> io::Result<()> {
    let route = Some(SockProtocol::NetlinkRoute);
    let kernel = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, route)?;
    // The request has a `nlmsghdr` and an `ifinfomsg`.
    let request = [
        &32_u32.to_ne_bytes()[..], // length of the message
        &libc::RTM_NEWLINK.to_ne_bytes(),
        &REQUEST_WITH_ANSWER.to_ne_bytes(),
        &[0; 12], // sequence number, sender, family, type
        &LOOPBACK.to_ne_bytes(),
        &IFF_UP.to_ne_bytes(), // flags
        &IFF_UP.to_ne_bytes(), // changed flags
    ];
    send(kernel.as_raw_fd(), &request.concat(), MsgFlags::empty())?;
    // The answer begins with a `nlmsghdr` and the first field of a `nlmsgerr`: 0 or a negative error number.
    let mut answer = [0; 20];
    recv(kernel.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let [.., a, b, c, d] = answer;
    match i32::from_ne_bytes([a, b, c, d]) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

const OWN_NAMESPACE: &str = "/proc/self/ns/net";
const THREAD: &str = "netns";
/// The directory in which `ip netns` and containerd pin network namespaces.
const SHARED_DIRECTORY: &str = "/run/netns";
const DEFAULT_RUN_DIR: &str = "/run/dockbridge";
const OF_THREAD: &str = "/proc/thread-self/ns/net";
const LOOPBACK: u32 = 1;
const IFF_UP: u32 = 1;
/// `NLM_F_REQUEST` and `NLM_F_ACK`.
const REQUEST_WITH_ANSWER: u16 = 1 | 4;

#[cfg(test)]
pub(crate) mod netns_thread;
#[cfg(test)]
mod tests;

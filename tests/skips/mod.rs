//! The only reasons for which a test may be skipped: something that the machine lacks. For each reason, a
//! check finds out whether this machine really lacks the thing.
//!
//! To skip itself or a part of itself, a test calls [`skip`] with what the machine lacks. `make test` names a file in
//! `DOCKBRIDGE_SKIPS`, to which each skip is written, and counts the skips at the end. If `DOCKBRIDGE_SKIPS` is set,
//! a test fails if it is skipped for something that the machine does have.

use std::{
    env,
    fs::{self, OpenOptions},
    io::Write as _,
    panic::Location,
    path::Path,
};

/// Something that a machine may lack, so that a test is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each program of tests lacks something else")]
pub(crate) enum Lack {
    /// The test does not run in `tests/env/world.sh`, which has a real engine. `make test` runs it there.
    World,
    /// The test lacks CAP_SYS_ADMIN, without which it cannot create namespaces and mounts. Even root lacks this
    /// capability in many containers.
    SysAdmin,
    /// `/dev/fuse` or `/dev/net/tun` is missing, or the test lacks CAP_SYS_ADMIN.
    Devices,
    /// The CNI project's network plugins are missing, or iptables, which these plugins call.
    Plugins,
    /// The test cannot set SELinux labels in the temporary directory.
    Attributes,
    /// The program of this name is missing.
    Program(&'static str),
    /// The kernel's packet filter does not see packets that cross a bridge.
    BridgeFilter,
    /// Child processes ignore SIGHUP, for example because the test runs under `nohup`.
    HangUps,
    /// systemd does not manage the engine's cgroups.
    Systemd,
    /// AppArmor is not enabled in the kernel.
    AppArmor,
    /// SELinux is not enabled in the kernel.
    Selinux,
    /// The machine has no swap or no cgroup v2.
    Swap,
    /// The machine has no cgroup v2.
    Unified,
    /// The test lacks CAP_SYS_RESOURCE, and an old engine (Docker 20.10) cannot start a container with all
    /// capabilities, such as a privileged one, if not all of them are available.
    SysResource,
    /// CAP_SYS_RESOURCE is missing, which CRIU needs to read the limits of another user's processes.
    OtherLimits,
    /// The propagation of the root mount is `shared` or `slave`.
    PrivateMounts,
    /// The engine is older than Docker 25.0.
    YoungEngine,
    /// The engine is not configured with `dockbridge-runtime`.
    OciRuntime,
    /// The engine reads CDI specifications itself, but the test needs an engine that does not.
    EngineWithoutCdi,
    /// CRIU is missing or does not work on this kernel.
    Criu,
    /// The host has cgroup v2 and runc before 1.2, which restores containers without their limits.
    RuncForRestores,
}

impl Lack {
    fn words(self) -> String {
        match self {
            Self::World => "no real engine; make test-stories has one".to_owned(),
            Self::SysAdmin => "no right to make namespaces, mounts and quotas".to_owned(),
            Self::Devices => "no /dev/fuse or no /dev/net/tun".to_owned(),
            Self::Plugins => "no network plugins, or no iptables".to_owned(),
            Self::Attributes => {
                "no extended attributes or security labels in the temporary directory".to_owned()
            }
            Self::Program(name) => format!("no {name}"),
            Self::BridgeFilter => "no br_netfilter in the kernel".to_owned(),
            Self::HangUps => "hang-ups are ignored by whatever is started here".to_owned(),
            Self::Systemd => "systemd does not keep this machine; make test-vm has it".to_owned(),
            Self::AppArmor => "no AppArmor in the kernel; make test-vm has it".to_owned(),
            Self::Selinux => "no SELinux in the kernel; make test-vm LSM=selinux has it".to_owned(),
            Self::Swap => "no swap, or no cgroup v2 to limit it; make test-vm has it".to_owned(),
            Self::Unified => "cgroup v1; make test-vm has v2".to_owned(),
            Self::OtherLimits => "no CAP_SYS_RESOURCE, which CRIU needs for other users".to_owned(),
            Self::SysResource => "not all capabilities, and an old engine".to_owned(),
            Self::PrivateMounts => "all of this machine's mounts are shared".to_owned(),
            Self::YoungEngine => {
                "an engine older than Docker 25; make test-engines has others".to_owned()
            }
            Self::OciRuntime => "no dockbridge-runtime; make test-runtime has it".to_owned(),
            Self::EngineWithoutCdi => "an engine that reads CDI specifications itself".to_owned(),
            Self::Criu => "no CRIU that works on this kernel".to_owned(),
            Self::RuncForRestores => {
                "cgroup v2 with runc before 1.2; ENGINE=sid has 1.3".to_owned()
            }
        }
    }

    /// Whether the machine really lacks the thing that this reason names. The check does not use code of the
    /// skipped test.
    fn is_true(self) -> bool {
        let is_there = |path: &str| Path::new(path).exists();
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let unified = is_there("/sys/fs/cgroup/cgroup.controllers");
        let version = env::var("DOCKBRIDGE_WORLD_VERSION").unwrap_or_default();
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        let young = major.is_some_and(|major| major >= 25);
        match self {
            // If `DOCKBRIDGE_WORLD_WANTED` is set, there must be an engine, so no test may be skipped for this reason.
            Self::World => ["DOCKBRIDGE_WORLD", "DOCKBRIDGE_WORLD_WANTED"]
                .iter()
                .all(|name| env::var_os(name).is_none()),
            Self::SysAdmin => !has_capability(21),
            Self::Devices => {
                !is_there("/dev/fuse") || !is_there("/dev/net/tun") || !has_capability(21)
            }
            Self::Plugins => {
                let complete = |place: &str| {
                    let all = ["bridge", "host-local", "portmap"];
                    all.iter().all(|name| Path::new(place).join(name).exists())
                };
                !["/opt/cni/bin", "/usr/lib/cni"].iter().any(|place| complete(place))
                    || !has_program("iptables")
            }
            Self::Attributes => {
                let kind =
                    nix::sys::statfs::statfs(&env::temp_dir()).map(|it| it.filesystem_type());
                kind != Ok(nix::sys::statfs::EXT4_SUPER_MAGIC) || !has_capability(21)
            }
            Self::Program(name) => !has_program(name),
            Self::BridgeFilter => !is_there("/proc/sys/net/bridge/bridge-nf-call-iptables"),
            Self::HangUps => {
                let status = read("/proc/self/status");
                field(&status, "SigIgn:").is_some_and(|ignored| ignored & 1 != 0)
            }
            Self::Systemd => {
                !env::var("DOCKBRIDGE_WORLD_CGROUP").is_ok_and(|name| name.ends_with(".slice"))
            }
            Self::AppArmor => !read("/sys/module/apparmor/parameters/enabled").starts_with('Y'),
            Self::Selinux => !is_there("/sys/fs/selinux/enforce"),
            Self::Swap => !unified || read("/proc/swaps").lines().count() < 2,
            Self::Unified => !unified,
            Self::OtherLimits => !has_capability(24),
            Self::SysResource => !young && !has_capability(24),
            Self::PrivateMounts => {
                let table = read("/proc/self/mountinfo");
                let root = table.lines().find(|line| line.split(' ').nth(4) == Some("/"));
                root.is_some_and(|line| line.contains(" shared:") || line.contains(" master:"))
            }
            Self::YoungEngine => !young,
            Self::OciRuntime => env::var_os("DOCKBRIDGE_WORLD_RUNTIME").is_none(),
            Self::EngineWithoutCdi => young,
            Self::Criu => !std::process::Command::new("criu")
                .arg("check")
                .output()
                .is_ok_and(|checked| checked.status.success()),
            Self::RuncForRestores => {
                let told = std::process::Command::new("runc").arg("--version").output();
                let told = told.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
                let is_old = |it: &str| ["1.0", "1.1"].iter().any(|old| it.starts_with(old));
                unified && told.is_ok_and(|it| it.strip_prefix("runc version ").is_some_and(is_old))
            }
        }
    }
}

/// Records that a test is skipped.
///
/// # Panics
/// Panics if `DOCKBRIDGE_SKIPS` is set and the machine has what `lack` says is missing.
#[track_caller]
pub(crate) fn skip(lack: Lack) {
    let (words, at) = (lack.words(), Location::caller());
    println!("  skipped: {words}");
    let Some(list) = env::var_os("DOCKBRIDGE_SKIPS") else { return };
    let noted = OpenOptions::new().create(true).append(true).open(&list);
    let noted = noted.and_then(|mut list| writeln!(list, "{words} ({}:{})", at.file(), at.line()));
    noted.expect("the list of skips");
    assert!(lack.is_true(), "this is no reason here to skip {at}: {words}");
}

fn has_capability(bit: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "CapEff:").is_some_and(|effective| effective & (1 << bit) != 0)
}

fn field(status: &str, name: &str) -> Option<u64> {
    let digits = status.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(digits.trim(), 16).ok()
}

fn has_program(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(name).exists())
}

//! What pods need on this host: forwarding, disk space, open files, the time, and security modules.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use serde::{Deserialize, de::IgnoredAny};

use super::{finding::Finding, subject::Subject};
use crate::{
    host::{
        capability, descriptors,
        disk::{self, Space},
        file,
        process::{self, Program},
    },
    model::engine::EngineInfo,
    setup::reading::{DaemonFlags, USUAL_FILE},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packets {
    /// Whether the kernel forwards IPv4 packets (`net.ipv4.ip_forward`).
    pub(super) forwarded: bool,
    /// Whether the packet filter sees packets that cross a bridge (`net.bridge.bridge-nf-call-iptables`).
    pub(super) bridged_filtered: bool,
    /// Whether the policy of the chain FORWARD drops packets. If `iptables` fails, dockbridge assumes that a
    /// Docker with iptables has set this policy.
    pub(super) dropped: bool,
}

impl Packets {
    /// Reads the kernel's settings. `nftables` says whether Docker uses nftables; None if Docker has not answered.
    pub(super) async fn read(nftables: Option<bool>) -> Self {
        let on = |path: &'static str| {
            fs::read_to_string(path).is_ok_and(|text| !matches!(text.trim(), "" | "0"))
        };
        let policy = output("iptables", &["-S", "FORWARD"]).await;
        Self {
            forwarded: on(IP_FORWARD),
            bridged_filtered: on(BRIDGED_IS_FILTERED),
            dropped: drops(policy.as_deref(), nftables),
        }
    }
}

fn drops(rules: Option<&str>, nftables: Option<bool>) -> bool {
    rules.map_or(nftables == Some(false), |rules| !rules.starts_with("-P FORWARD ACCEPT"))
}

/// Judges [`Packets`]. `bridged` means that pods are behind a bridge, `kubelet` that this host has a kubelet.
pub(super) fn forwarding(packets: &Packets, bridged: bool, kubelet: bool) -> Finding {
    let warn = |seen, advice| Finding::warn(Subject::Forwarding, seen, advice);
    if !packets.forwarded {
        let seen = "net.ipv4.ip_forward is 0: the kernel forwards no IPv4 packets of pods";
        return warn(seen, "run sysctl -w net.ipv4.ip_forward=1, and set it in /etc/sysctl.d");
    }
    if bridged && kubelet && !packets.bridged_filtered {
        let seen = "bridged packets bypass the packet filter: with kube-proxy, a pod gets no answer from a \
                    Service whose pod is also on this node";
        let advice = "run modprobe br_netfilter, then sysctl -w net.bridge.bridge-nf-call-iptables=1, and set \
                      both for later boots in /etc/modules-load.d and /etc/sysctl.d";
        return warn(seen, advice);
    }
    Finding::ok(Subject::Forwarding, "the kernel forwards IPv4 packets (net.ipv4.ip_forward)")
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct DaemonJson {
    log_opts: BTreeMap<String, IgnoredAny>,
    default_ulimits: BTreeMap<String, IgnoredAny>,
}

impl DaemonJson {
    fn read(text: &str) -> Self {
        serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap_or_default()
    }
}

/// Judges dockerd's settings for the logs and open files of containers. `inherited` is from [`inherited_files`].
pub(super) fn container_defaults(
    engine: &EngineInfo,
    flags: &DaemonFlags,
    inherited: Option<u64>,
) -> Vec<Finding> {
    let path = flags.config_file.as_deref().unwrap_or(USUAL_FILE);
    let text = file::read_text(Path::new(path), LONGEST_DAEMON_JSON).unwrap_or_default();
    let file = DaemonJson::read(&text);
    let logs = judge_logs(engine, flags, &file);
    logs.into_iter().chain(judge_files(inherited, flags, &file)).collect()
}

/// The limit of open files that containers inherit: the soft limit of containerd's unit. `/proc` of containerd does not
/// show this limit, because Go programs raise their own limit. None if the limit is unknown or infinite.
pub(super) async fn inherited_files(engine: &EngineInfo) -> Option<u64> {
    let containerd = capability::listening_pid(engine.containerd_socket.as_deref()?)?;
    let cgroups = fs::read_to_string(format!("/proc/{containerd}/cgroup")).ok()?;
    let arguments = ["show", "--property=LimitNOFILESoft", "--value", unit(&cgroups)?];
    output("systemctl", &arguments).await?.trim().parse().ok()
}

/// The systemd unit in the text of a process's `/proc/<pid>/cgroup`.
fn unit(cgroups: &str) -> Option<&str> {
    let mut steps = cgroups.lines().flat_map(|line| line.split('/'));
    steps.find(|step| step.ends_with(".service"))
}

/// Since Docker 29, containerd's unit sets no limit of open files, so containers inherit systemd's soft limit.
fn judge_files(inherited: Option<u64>, flags: &DaemonFlags, file: &DaemonJson) -> Option<Finding> {
    let soft = inherited.filter(|soft| *soft <= FEW_FILES)?;
    let names = flags.ulimits.iter().filter_map(|limit| limit.split('=').next());
    if names.chain(file.default_ulimits.keys().map(String::as_str)).any(|name| name == "nofile") {
        return None;
    }
    let seen = format!(
        "a process of a container can open {soft} files, unless the process raises the limit"
    );
    Some(Finding::warn(Subject::Descriptors, seen, format!("{MORE_FILES}, {RESTART}")))
}

/// If `log-opts` have `max-buffer-size`, Docker refuses the log mode `blocking` that dockbridge requests.
/// Docker applies `log-opts` only to containers with its default log driver.
fn judge_logs(engine: &EngineInfo, flags: &DaemonFlags, file: &DaemonJson) -> Option<Finding> {
    let names = flags.log_options.iter().filter_map(|option| option.split('=').next());
    let mut names = names.chain(file.log_opts.keys().map(String::as_str));
    if engine.log_driver != "json-file" || !names.any(|name| name == BUFFER_SIZE) {
        return None;
    }
    let seen = "Docker's log-opts have max-buffer-size, so Docker refuses the log mode \"blocking\" that \
                dockbridge requests, and drops lines if a container writes faster than the disk";
    let advice = format!(
        "remove mode and max-buffer-size from log-opts (daemon.json, or --log-opt), {RESTART}"
    );
    Some(Finding::warn(Subject::Engine, seen, advice))
}

pub(super) fn disk(place: &Path) -> Option<Finding> {
    Some(judge_disk(place, disk::space(place).ok()?))
}

fn judge_disk(place: &Path, size: Space) -> Finding {
    let percent = |free: u64, all: u64| free.saturating_mul(100).checked_div(all).unwrap_or(100);
    let (bytes, inodes) =
        (percent(size.free_bytes, size.bytes), percent(size.free_inodes, size.inodes));
    let seen = format!("{}: {bytes} % of the space is free", place.display());
    if bytes >= LEAST_BYTES && inodes >= LEAST_INODES {
        return Finding::ok(Subject::Disk, seen);
    }
    let seen = format!(
        "{seen}, and {inodes} % of the inodes; by default, kubelet evicts pods below 15 % of the space or 5 % of the inodes"
    );
    let advice = "run docker image prune --all (removes every image that no container uses, even if the image \
                  exists only on this node), or give Docker a larger disk (data-root)";
    Finding::warn(Subject::Disk, seen, advice)
}

/// Compares dockbridge's limit of open files (`limits` is `/proc/<pid>/limits`) with the number of pods of a node.
/// Open cgroup files use up to a quarter of the limit (`host::cgroup::open_files`).
pub(super) fn descriptors(limits: &str, pods: u32) -> Finding {
    let limit = open_files(limits).unwrap_or(u64::MAX);
    let allowed = (limit / 4 * 3).saturating_sub(OTHER_FILES) / PER_POD;
    if allowed >= u64::from(pods) {
        let seen =
            format!("dockbridge can open enough files for {pods} pods with two containers each");
        return Finding::ok(Subject::Descriptors, seen);
    }
    let seen = format!(
        "dockbridge can open enough files for about {allowed} pods with two containers each, and this node \
         can have {pods} pods"
    );
    Finding::warn(Subject::Descriptors, seen, "set LimitNOFILE=65536 in the unit of dockbridge")
}

/// The limit of open files after dockbridge has raised it at its start. None if the text has no limit.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    // The limit `unlimited` is not a number, so it counts as the largest number.
    let mut limits = line.split_whitespace().map(|limit| limit.parse().unwrap_or(u64::MAX));
    Some(descriptors::raised(limits.next()?, limits.next()?))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Modules {
    pub(super) apparmor: bool,
    pub(super) selinux: bool,
}

impl Modules {
    pub(super) fn read() -> Self {
        let apparmor = fs::read_to_string("/sys/module/apparmor/parameters/enabled");
        Self {
            apparmor: apparmor.is_ok_and(|text| text.trim() == "Y"),
            selinux: Path::new("/sys/fs/selinux/enforce").exists(),
        }
    }
}

/// Whether Docker uses the security modules (AppArmor, SELinux) that the kernel has turned on.
pub(super) fn confinement(modules: Modules, engine: &EngineInfo) -> Finding {
    let warn = |seen, advice: String| Finding::warn(Subject::Confinement, seen, advice);
    match modules {
        Modules { apparmor: true, .. } if !engine.has_apparmor() => {
            let seen = "AppArmor is on, and Docker does not use it: pods with a Localhost profile of AppArmor \
                        are refused, and other pods run without AppArmor";
            warn(seen, format!("install apparmor (apparmor_parser), {RESTART}"))
        }
        Modules { selinux: true, .. } if !engine.has_selinux() => {
            let seen = "SELinux is on, and Docker does not use it: containers lack SELinux labels";
            warn(seen, format!("set \"selinux-enabled\": true in daemon.json, {RESTART}"))
        }
        Modules { apparmor: true, .. } => Finding::ok(Subject::Confinement, "AppArmor"),
        Modules { selinux: true, .. } => Finding::ok(Subject::Confinement, "SELinux"),
        Modules { .. } => Finding::ok(Subject::Confinement, "neither AppArmor nor SELinux is on"),
    }
}

/// Whether the clock is synchronised. None if `timedatectl` does not say.
pub(super) async fn clock() -> Option<Finding> {
    let printed = output("timedatectl", &["show", "--property=NTPSynchronized", "--value"]).await?;
    judge_clock(printed.trim())
}

fn judge_clock(synchronized: &str) -> Option<Finding> {
    match synchronized {
        "yes" => Some(Finding::ok(Subject::Clock, "synchronized")),
        "no" => {
            let seen = "the clock is not synchronized: certificates may count as invalid, and times of logs \
                        and events may differ from other nodes";
            Some(Finding::warn(Subject::Clock, seen, "timedatectl set-ntp true, or start chrony"))
        }
        _ => None,
    }
}

async fn output(program: &'static str, arguments: &[&str]) -> Option<String> {
    let finished = process::run(Program::new(Path::new(program), arguments, TIMEOUT)).await.ok()?;
    (finished.exit == process::ProcessExit::Code(0)).then(|| finished.text())
}

const IP_FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
const BRIDGED_IS_FILTERED: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";
/// kubelet's default for `imagefs.available`, in percent.
const LEAST_BYTES: u64 = 15;
/// kubelet's default for `imagefs.inodesFree`, in percent.
const LEAST_INODES: u64 = 5;
/// Open files for each pod: the engine's log and the CRI log of each of two containers.
const PER_POD: u64 = 4;
/// Open files other than logs and cgroup files: connections, exec and attach streams, and dockbridge's own files.
const OTHER_FILES: u64 = 256;
/// kubelet's default for `maxPods`.
pub(super) const USUAL_PODS: u32 = 110;
/// systemd's soft limit of open files for a unit that sets no limit.
const FEW_FILES: u64 = 1024;
const MORE_FILES: &str = "if programs fail with \"too many open files\": set \"default-ulimits\": {\"nofile\": \
                          {\"Name\": \"nofile\", \"Soft\": 1048576, \"Hard\": 1048576}} in daemon.json";
const TIMEOUT: Duration = Duration::from_secs(5);
const RESTART: &str = "then restart Docker (without live-restore, a restart ends every container: drain the node first)";
const BUFFER_SIZE: &str = "max-buffer-size";
/// The size limit of `daemon.json` in bytes.
const LONGEST_DAEMON_JSON: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::{
        super::{finding::Severity, tests::info},
        *,
    };

    #[test]
    fn packets_that_are_not_forwarded_are_a_warning() {
        let packets = Packets { forwarded: true, bridged_filtered: true, dropped: true };
        assert_eq!(forwarding(&packets, true, true).severity, Severity::Ok);
        let unseen = Packets { bridged_filtered: false, ..packets };
        assert_eq!(forwarding(&unseen, true, true).severity, Severity::Warn);
        assert_eq!(forwarding(&unseen, true, false).severity, Severity::Ok);
        assert_eq!(forwarding(&unseen, false, true).severity, Severity::Ok);
        let kept = forwarding(&Packets { forwarded: false, ..packets }, false, false);
        assert!(kept.advice.contains("ip_forward=1"), "{kept:?}");
    }

    #[test]
    fn docker_sets_no_policy_with_nftables() {
        for (rules, nftables, dropped) in [
            (Some("-P FORWARD DROP\n-N DOCKER"), Some(false), true),
            // Docker used iptables before nftables, and iptables has kept the policy.
            (Some("-P FORWARD DROP\n"), Some(true), true),
            (Some("-P FORWARD ACCEPT\n"), Some(false), false),
            (None, Some(false), true),
            (None, Some(true), false),
            (None, None, false),
        ] {
            assert_eq!(drops(rules, nftables), dropped, "{rules:?} {nftables:?}");
        }
    }

    #[test]
    fn a_disk_below_the_thresholds_of_kubelet_is_a_warning() {
        let size = Space { bytes: 100, free_bytes: 15, inodes: 100, free_inodes: 5 };
        let severity = |size| judge_disk(Path::new("/d"), size).severity;
        assert_eq!(severity(size), Severity::Ok);
        assert_eq!(severity(Space { free_bytes: 14, ..size }), Severity::Warn);
        assert_eq!(severity(Space { free_inodes: 4, ..size }), Severity::Warn);
        assert_eq!(severity(Space { inodes: 0, free_inodes: 0, ..size }), Severity::Ok);
        assert!(disk(Path::new("/no/such")).is_none());
    }

    #[test]
    fn open_files_are_compared_with_the_pods() {
        // At its start, dockbridge raises its soft limit of open files to at most 16,384.
        for (soft, hard, pods) in
            [("1024", "1024", 128), ("1024", "unlimited", 3008), ("65536", "1048576", 12_224)]
        {
            let limits = format!("Max open files            {soft}   {hard}   files\n");
            assert_eq!(descriptors(&limits, pods).severity, Severity::Ok);
            let few = descriptors(&limits, pods + 1);
            assert!(few.seen.contains(&format!("about {pods} pods")), "{few:?}");
        }
        let endless = "Max open files            unlimited   unlimited   files\n";
        assert_eq!(descriptors(endless, u32::MAX).severity, Severity::Ok);
        assert_eq!(descriptors("", 1000).severity, Severity::Ok);
    }

    #[test]
    fn containers_with_few_open_files_are_a_warning() {
        let judged = |soft: Option<u64>, words: &[&str], text: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            judge_files(soft, &DaemonFlags::read(&words), &DaemonJson::read(text)).is_some()
        };
        let few = Some(1024);
        assert!(judged(few, &[], ""));
        assert!(judged(few, &["dockerd", "--default-ulimit", "core=0"], "{}"));
        assert!(!judged(Some(1_048_576), &[], "") && !judged(None, &[], ""));
        assert!(!judged(few, &["dockerd", "--default-ulimit=nofile=65536:65536"], ""));
        assert!(!judged(few, &[], r#"{"default-ulimits": {"nofile": {"Soft": 65536}}}"#));
        let version_1 = "5:pids:/system.slice/containerd.service\n0::/\n";
        assert_eq!(unit(version_1), Some("containerd.service"));
        assert_eq!(unit("0::/system.slice/docker.service/leaf\n"), Some("docker.service"));
        assert_eq!(unit("0::/user.slice/session-1.scope\n"), None);
    }

    #[test]
    fn a_security_module_that_docker_does_not_use_is_a_warning() {
        let options = |name: &str| EngineInfo { security_options: vec![name.to_owned()], ..info() };
        let apparmor = Modules { apparmor: true, selinux: false };
        let selinux = Modules { apparmor: false, selinux: true };
        for (modules, option, severity) in [
            (Modules::default(), "name=seccomp", Severity::Ok),
            (apparmor, "name=apparmor", Severity::Ok),
            (apparmor, "name=seccomp", Severity::Warn),
            (selinux, "name=selinux", Severity::Ok),
            (selinux, "name=seccomp", Severity::Warn),
        ] {
            let finding = confinement(modules, &options(option));
            assert_eq!(finding.severity, severity, "{finding:?}");
        }
    }

    #[test]
    fn a_clock_of_its_own_is_a_warning() {
        assert_eq!(judge_clock("yes").unwrap().severity, Severity::Ok);
        assert_eq!(judge_clock("no").unwrap().severity, Severity::Warn);
        assert!(judge_clock("").is_none());
    }

    #[test]
    fn log_options_that_refuse_blocking_logs_are_named() {
        let judged = |driver: &str, words: &[&str], text: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let engine = EngineInfo { log_driver: driver.to_owned(), ..info() };
            judge_logs(&engine, &DaemonFlags::read(&words), &DaemonJson::read(text)).is_some()
        };
        let file = r#"{"log-opts": {"mode": "non-blocking", "max-buffer-size": "4m"}}"#;
        assert!(judged("json-file", &[], file));
        assert!(judged("json-file", &[], &format!("\u{feff}{file}")));
        assert!(judged("json-file", &["dockerd", "--log-opt", "max-buffer-size=4m"], ""));
        assert!(judged("json-file", &["dockerd", "--log-opt=max-buffer-size=4m"], "{}"));
        // Docker does not apply options of another default log driver to dockbridge's containers.
        assert!(!judged("local", &[], file));
        assert!(!judged("json-file", &[], r#"{"log-opts": {"mode": "non-blocking"}}"#));
        assert!(!judged("json-file", &["dockerd"], "no json"));
    }
}

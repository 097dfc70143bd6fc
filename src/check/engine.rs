//! Is there an engine, and is it one that can run pods?

use std::{path::Path, time::Duration};

use super::{finding::Finding, subject::Subject};
use crate::{
    engine::client::{Engine, Timeouts},
    model::engine::{ApiVersion, CgroupDriver, EngineInfo},
};

/// Asks the engine behind the socket about itself; without an answer, what that means.
pub(super) async fn ask(socket: &Path) -> Result<EngineInfo, Finding> {
    let time_limit = Timeouts { ping: TIMEOUT, short: TIMEOUT, ..Timeouts::default() };
    let engine = Engine::new(socket.to_owned(), time_limit);
    let info = match engine.negotiate().await {
        Ok(_) => engine.info().await,
        Err(error) => Err(error),
    };
    info.map_err(|error| Finding::fail(Subject::Engine, error.to_string(), UNREACHABLE))
}

/// What the engine's own account means for pods on this host.
pub(super) fn examine(socket: &Path, info: &EngineInfo) -> Vec<Finding> {
    judge(socket, info, systemd_is_init())
}

/// What the engine's own account means for pods.
pub(super) fn judge(socket: &Path, info: &EngineInfo, systemd: bool) -> Vec<Finding> {
    let mut findings = vec![reached(socket, info), cgroup(info, systemd)];
    if !info.root_dir.exists() {
        let seen = format!("the engine's data in {} is not on this host", info.root_dir.display());
        findings.push(Finding::fail(Subject::Engine, seen, ELSEWHERE));
    }
    if !info.live_restore {
        let seen = "live-restore is off: a restart of the engine stops every pod";
        findings.push(Finding::warn(Subject::LiveRestore, seen, LIVE_RESTORE));
    }
    let limits = info.warnings.iter().map(|text| text.trim_start_matches("WARNING: "));
    findings.extend(limits.map(|text| Finding::warn(Subject::Engine, text, HOST_WARNING)));
    findings
}

fn reached(socket: &Path, info: &EngineInfo) -> Finding {
    let store = if info.containerd_store { "containerd" } else { "graph driver" };
    let seen = format!(
        "Docker {} at {}, API {} (known: {} to {}), {store} image store ({})",
        info.version,
        socket.display(),
        info.api,
        ApiVersion::OLDEST,
        ApiVersion::NEWEST,
        info.storage_driver,
    );
    Finding::ok(Subject::Engine, seen)
}

fn cgroup(info: &EngineInfo, systemd: bool) -> Finding {
    let driver = match info.cgroup_driver {
        CgroupDriver::Cgroupfs => "cgroupfs",
        CgroupDriver::Systemd => "systemd",
        CgroupDriver::None => return Finding::fail(Subject::Cgroup, NO_CGROUPS, DELEGATE),
    };
    let seen = format!("driver {driver}, version {}", info.cgroup_version);
    match (info.cgroup_driver, info.cgroup_version) {
        (_, 1) => Finding::warn(Subject::Cgroup, seen, VERSION_1),
        (CgroupDriver::Cgroupfs, _) if systemd => {
            Finding::warn(Subject::Cgroup, seen, TWO_MANAGERS)
        }
        _ => Finding::ok(Subject::Cgroup, seen),
    }
}

/// sd_booted(3).
fn systemd_is_init() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// An engine that is up answers at once.
const TIMEOUT: Duration = Duration::from_secs(10);

const UNREACHABLE: &str =
    "start the engine, or name its socket with --docker; dockbridge itself can wait for it";
const ELSEWHERE: &str = "run dockbridge on the host of the engine: it needs the namespaces and files \
                         of pods, which an engine in a virtual machine or container does not show";
const LIVE_RESTORE: &str = "set \"live-restore\": true in /etc/docker/daemon.json";
const HOST_WARNING: &str = "the engine says this of its host; limits of this kind have no effect";
const NO_CGROUPS: &str = "the engine manages no cgroups: no pod can be limited";
const DELEGATE: &str = "delegate cgroups to the rootless engine, or run it as root";
const VERSION_1: &str = "kubelet from 1.35 on refuses cgroup v1 unless failCgroupV1 is false; crictl \
                         and CI are not affected";
const TWO_MANAGERS: &str = "systemd manages cgroups here as well: set \"exec-opts\": \
                            [\"native.cgroupdriver=systemd\"] in /etc/docker/daemon.json, and \
                            cgroupDriver to match in kubelet";

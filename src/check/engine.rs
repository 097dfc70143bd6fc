//! Whether there is an engine, and whether it can run pods.

use std::{path::Path, time::Duration};

use super::{
    finding::{Finding, Severity},
    subject::Subject,
};
use crate::{
    engine::{
        client::{Engine, Timeouts},
        error::EngineError,
    },
    model::{
        engine::{ApiVersion, CgroupDriver, EngineInfo},
        oci_edits::RUNTIME,
        sandbox::DEFAULT_HANDLER,
    },
};

/// Asks the engine on the socket for its properties. If a call fails, returns a finding with the error.
pub async fn ask(socket: &Path) -> Result<EngineInfo, Finding> {
    let time_limit = Timeouts { ping: TIMEOUT, short: TIMEOUT, ..Timeouts::default() };
    let engine = Engine::new(socket.to_owned(), time_limit);
    let info = match engine.negotiate().await {
        Ok(_) => engine.info().await,
        Err(error) => Err(error),
    };
    info.map_err(|error| {
        let advice = match &error {
            // The text of `Unreachable` already says what the operator can do.
            EngineError::Unreachable { .. } => "dockbridge connects by itself once Docker answers",
            EngineError::Deadline { .. } => HANGS,
            EngineError::Incompatible { .. } => OTHER_VERSION,
            _ => "see the log of Docker: journalctl -u docker",
        };
        Finding::fail(Subject::Engine, error.to_string(), advice)
    })
}

/// Judges what the engine's properties mean for pods. `systemd` says whether the host runs systemd.
pub(super) fn judge(socket: &Path, info: &EngineInfo, systemd: bool) -> Vec<Finding> {
    let mut findings = vec![reached(socket, info), cgroup(info, systemd)];
    findings.extend(oci_runtimes(info));
    if !info.root_dir.exists() {
        let seen = format!("the engine's data in {} is not on this host", info.root_dir.display());
        findings.push(Finding::fail(Subject::Engine, seen, ELSEWHERE));
    }
    if let Some(store) = &info.other_store {
        findings.push(Finding::warn(Subject::Engine, store.to_string(), store.way_back()));
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
    let store = if info.containerd_store { "containerd" } else { "Docker's own" };
    let seen = format!(
        "Docker {} at {}, API {} (dockbridge supports {} to {}), image store: {store} ({})",
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
    let seen = format!("cgroup driver {driver}, cgroup version {}", info.cgroup_version);
    match (info.cgroup_driver, info.cgroup_version) {
        (_, 1) => Finding::warn(Subject::Cgroup, seen, VERSION_1),
        (CgroupDriver::Cgroupfs, _) if systemd => {
            Finding::warn(Subject::Cgroup, seen, TWO_MANAGERS)
        }
        _ => Finding::ok(Subject::Cgroup, seen),
    }
}

fn oci_runtimes(info: &EngineInfo) -> Vec<Finding> {
    let subject = Subject::OciRuntime;
    let is_missing = |path: &Path| path.is_absolute() && !path.exists();
    let missing = info.runtimes.iter().filter(|(_, runtime)| is_missing(Path::new(&runtime.path)));
    let missing = missing.map(|(name, runtime)| {
        let seen = format!("Docker's runtime {name:?} is {}, which does not exist", runtime.path);
        match name.as_str() {
            RUNTIME => Finding::fail(subject, seen, SETUP_AGAIN),
            name if name == info.default_runtime => Finding::fail(subject, seen, WRONG_PATH),
            _ => Finding::warn(subject, seen, WRONG_PATH),
        }
    });
    let mut findings: Vec<Finding> = missing.collect();
    if !findings.iter().any(|finding| finding.severity == Severity::Fail) {
        findings.push(edits_runtime(info));
    }
    findings
}

/// Judges how the engine uses `dockbridge-runtime`.
fn edits_runtime(info: &EngineInfo) -> Finding {
    let subject = Subject::OciRuntime;
    match (info.runtimes.get(RUNTIME), info.below(DEFAULT_HANDLER)) {
        (None, _) if info.api >= ApiVersion::ANNOTATIONS => Finding::ok(subject, NO_RUNTIME),
        (None, _) => Finding::ok(subject, OLD_API),
        (Some(_), Err(reason)) => {
            let seen = format!(
                "dockbridge-runtime adds no feature to pods without a runtime handler: {reason}"
            );
            Finding::warn(subject, seen, UNUSED)
        }
        (Some(ours), Ok(below)) => {
            let users = match info.maps_users(DEFAULT_HANDLER) {
                Ok(()) => {
                    "pods without a runtime handler can have user namespaces with --network cni"
                        .to_owned()
                }
                Err(reason) => {
                    format!("pods without a runtime handler cannot have user namespaces: {reason}")
                }
            };
            let runs = below.first().map(|program| format!(" runs {program}")).unwrap_or_default();
            Finding::ok(subject, format!("{}{runs}; {users}", ours.path))
        }
    }
}

/// How long the engine may take to answer each call; much longer than a working engine needs.
const TIMEOUT: Duration = Duration::from_secs(10);

const HANGS: &str = "Docker hangs: see journalctl -u docker. A restart of Docker ends every container unless \
                     live-restore is on";
const OTHER_VERSION: &str = "install a newer Docker if Docker's API is too old, or a newer dockbridge if \
                             Docker's minimum API version (min-api-version in daemon.json) is too new";
const ELSEWHERE: &str = "run dockbridge on the host of the engine: dockbridge needs the namespaces and files \
                         of pods, which an engine in a virtual machine or container does not expose";
const LIVE_RESTORE: &str = "set \"live-restore\": true in /etc/docker/daemon.json, then run: systemctl \
                            reload docker";
const HOST_WARNING: &str = "docker info has this warning about Docker's host or settings; a warning \"No … \
                            support\" means that limits of the named kind have no effect";
const NO_RUNTIME: &str = "Docker has no dockbridge-runtime (see `dockbridge setup`): pods with user namespaces, \
                          id-mapped volumes, CRI mount options or ambient capabilities are refused";
const OLD_API: &str = "this Docker is too old for dockbridge-runtime, which needs Docker 24.0 or newer: pods with \
                       user namespaces, id-mapped volumes, CRI mount options or ambient capabilities are refused";
const SETUP_AGAIN: &str = "pods on CNI whose runtime is runc or runs runc cannot start: run `dockbridge setup` \
                           again, or `dockbridge setup --undo`";
const WRONG_PATH: &str =
    "pods with this runtime cannot start: correct its path in /etc/docker/daemon.json";
const UNUSED: &str = "if pods with a runtime handler do not need dockbridge-runtime either, you can remove it: \
                      `dockbridge setup --undo`";
const NO_CGROUPS: &str = "the engine manages no cgroups: no pod can be limited";
const DELEGATE: &str = "delegate cgroups to the rootless engine (this needs cgroup v2 and systemd), or run the \
                        engine as root";
const VERSION_1: &str = "kubelet 1.35 and later refuses cgroup v1 unless failCgroupV1 is false; crictl \
                         and CI are not affected";
const TWO_MANAGERS: &str = "systemd also manages cgroups here: drain the node, set \"exec-opts\": \
                            [\"native.cgroupdriver=systemd\"] in /etc/docker/daemon.json and cgroupDriver: \
                            systemd in kubelet's configuration, then restart Docker and kubelet";

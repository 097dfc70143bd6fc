//! Checks what dockbridge needs on this host.

use std::{fs, path::Path, pin::pin, time::Duration};

use tokio::time::timeout;

use super::{
    capability, checkpoints, cni, engine,
    finding::{Finding, Findings},
    kubelet::{self, Kubelet},
    node::{self, Modules, Packets},
    paths, plugins, registries,
    runtimes::{self, Others},
    server,
    subject::Subject,
};
use crate::{
    concurrency::blocking::blocking,
    config::settings::Settings,
    engine::{lock::EngineLocks, storage},
    host::lock::Holder,
    model::{engine::EngineInfo, network::NetworkMode},
    setup::{command::daemon_flags, reading::USUAL_FILE},
};

/// What was found on a host.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    pub findings: Findings,
    /// The dockbridge that currently serves the engine.
    pub server: Option<Holder>,
    pub engine_answered: bool,
}

/// A report to the caller of [`examine`] while it runs.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    Found(&'a [Finding]),
    Waiting,
}

/// Examines the host with these settings, and reports to `tell`. If a pod `will_run`, a running dockbridge on a socket
/// other than the configured one is only a warning. Leaves no changes, but creates and removes directories to test
/// whether files can be written.
pub async fn examine(
    settings: &Settings,
    locks: &EngineLocks,
    will_run: bool,
    tell: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Examined {
    let mut asked = pin!(engine::ask(&settings.docker));
    let at_once = timeout(USUAL_ANSWER_TIME, &mut asked).await.ok();
    let kubelet = kubelet::find().await;
    let nftables = at_once.as_ref().and_then(|asked| Some(asked.as_ref().ok()?.nftables));
    let packets = Packets::read(nftables).await;
    let mut findings = without_engine(settings, packets, kubelet.is_some()).await;
    let mut told = Vec::new();
    if at_once.is_none() {
        told = std::mem::take(&mut findings);
        tell(Progress::Found(&told));
        tell(Progress::Waiting);
    }
    let answer = match at_once {
        Some(answer) => answer,
        None => asked.await,
    };
    let (mut server, mut info) = (None, None);
    match answer {
        Ok(answer) => {
            // Like sd_booted(3): this directory exists if systemd is the host's init system.
            let systemd = Path::new("/run/systemd/system").is_dir();
            findings.extend(engine::judge(&settings.docker, &answer, systemd));
            let held = locks.holder(&answer);
            findings.push(server::judge(&held, &settings.listen, will_run));
            server = held.ok().flatten();
            info = Some(answer);
        }
        Err(absent) => findings.push(absent),
    }
    let socket = server.as_ref().and_then(|server| server.socket.as_deref());
    let socket = socket.or(settings.listen.path());
    findings.extend(kubelet::judge(kubelet.as_ref(), info.as_ref(), socket));
    let engine_answered = info.is_some();
    let settings = settings.clone();
    let pid = server.as_ref().and_then(|server| server.pid);
    let mut inherited = None;
    if let Some(engine) = &info {
        findings.extend(storage::disks(engine).await.iter().filter_map(|place| node::disk(place)));
        inherited = node::inherited_files(engine).await;
    }
    let local =
        blocking(move || local(&settings, info.as_ref(), inherited, (pid, kubelet.as_ref())));
    let (local, file) = local.await;
    findings.extend(local);
    if let Some(file) = file {
        for finding in &mut findings {
            finding.advice = finding.advice.replace(USUAL_FILE, &file);
        }
    }
    findings.sort_by_key(|finding| finding.subject);
    tell(Progress::Found(&findings));
    findings.extend(told);
    findings.sort_by_key(|finding| finding.subject);
    Examined { findings: Findings(findings), server, engine_answered }
}

/// Findings that do not need the engine's answer, sorted by subject.
async fn without_engine(settings: &Settings, packets: Packets, kubelet: bool) -> Vec<Finding> {
    let (mut findings, bridged) = match settings.network {
        NetworkMode::Cni => cni::examine(settings, packets).await,
        NetworkMode::Docker | NetworkMode::Host => {
            let seen = "pods get addresses from the engine's own bridge";
            (vec![Finding::ok(Subject::Network, seen)], false)
        }
    };
    findings.push(node::forwarding(&packets, bridged, kubelet));
    findings.extend(node::clock().await);
    findings.push(checkpoints::examine().await);
    let settings = settings.clone();
    let files = blocking(move || {
        let mut findings = capability::examine(&settings.docker);
        findings.extend(runtimes::judge(&Others::read()));
        findings.push(paths::listen(&settings.listen));
        findings.push(paths::directory(Subject::State, "--state-dir", &settings.state_dir));
        findings.push(paths::directory(Subject::Run, "--run-dir", &settings.run_dir));
        findings
    });
    findings.extend(files.await);
    findings.sort_by_key(|finding| finding.subject);
    findings
}

/// Findings from this host's files, and the path in dockerd's flag `--config-file`. `inherited` is the limit of open
/// files that containers inherit. `server` is the pid of the running dockbridge.
fn local(
    settings: &Settings,
    engine: Option<&EngineInfo>,
    inherited: Option<u64>,
    (server, kubelet): (Option<u32>, Option<&Kubelet>),
) -> (Vec<Finding>, Option<String>) {
    let mut findings = Vec::new();
    let mut file = None;
    if let Some(engine) = engine {
        if let Some(flags) = daemon_flags(&settings.docker) {
            findings.extend(node::container_defaults(engine, &flags, inherited));
            file = flags.config_file;
        }
        findings.extend(registries::examine(engine, Path::new(registries::DIRECTORY)));
        findings.push(node::confinement(Modules::read(), engine));
    }
    let most = kubelet.and_then(|one| one.config.as_ref().ok()?.max_pods);
    let limits = server.map_or("/proc/self/limits".to_owned(), |pid| format!("/proc/{pid}/limits"));
    let limits = fs::read_to_string(limits).unwrap_or_default();
    findings.push(node::descriptors(&limits, most.unwrap_or(node::USUAL_PODS)));
    findings.extend(plugins::examine(&settings.nri, engine, server));
    (findings, file)
}

/// How long `examine` waits for the engine's answer before it reports that it is waiting.
const USUAL_ANSWER_TIME: Duration = Duration::from_secs(1);

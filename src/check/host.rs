//! Checks everything that dockbridge needs on this host.

use std::fs;

use super::{
    capability, cni, engine,
    finding::{Finding, Findings},
    kubelet::{self, Kubelet},
    node::{self, Modules, Packets},
    paths, plugins,
    runtimes::{self, Others},
    server,
    subject::Subject,
};
use crate::{
    concurrency::blocking::blocking,
    config::settings::Settings,
    engine::lock::EngineLocks,
    host::lock::Holder,
    model::{engine::EngineInfo, network::NetworkMode},
    setup::command::daemon_flags,
};

/// What was found on a host.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    pub findings: Findings,
    /// The dockbridge that serves the engine.
    pub server: Option<Holder>,
}

/// Examines the host for these settings, and for a pod if one `will_run`. Changes nothing that
/// outlives the call: whether a directory can be written to is tried with a folder that is
/// removed again.
pub async fn examine(settings: &Settings, locks: &EngineLocks, will_run: bool) -> Examined {
    let mut findings = Vec::new();
    let (mut server, mut info) = (None, None);
    match engine::ask(&settings.docker).await {
        Ok(told) => {
            findings.extend(engine::judge(&settings.docker, &told, engine::systemd_is_init()));
            let held = locks.holder(&told);
            findings.push(server::judge(&held, &settings.listen, will_run));
            server = held.ok().flatten();
            info = Some(told);
        }
        Err(absent) => findings.push(absent),
    }
    let kubelet = kubelet::find().await;
    findings.extend(network(settings, kubelet.is_some()).await);
    let socket = server.as_ref().and_then(|server| server.socket.as_deref());
    let socket = socket.or(settings.listen.path());
    findings.extend(kubelet::judge(kubelet.as_ref(), info.as_ref(), socket));
    findings.extend(node::clock().await);
    let settings = settings.clone();
    let pid = server.as_ref().and_then(|server| server.pid);
    let local = blocking(move || local(&settings, info.as_ref(), (pid, kubelet.as_ref())));
    findings.extend(local.await);
    findings.sort_by_key(|finding| finding.subject);
    Examined { findings: Findings(findings), server }
}

async fn network(settings: &Settings, kubelet: bool) -> Vec<Finding> {
    let packets = Packets::read().await;
    let (mut findings, bridged) = match settings.network {
        NetworkMode::Cni => cni::examine(&settings.cni, packets).await,
        NetworkMode::Docker | NetworkMode::Host => {
            let seen = "pods get addresses from the engine's own bridge";
            (vec![Finding::ok(Subject::Network, seen)], false)
        }
    };
    findings.push(node::forwarding(&packets, bridged, kubelet));
    findings
}

/// What is read from this host's files. `processes` are the dockbridge that serves, and kubelet.
fn local(
    settings: &Settings,
    engine: Option<&EngineInfo>,
    (server, kubelet): (Option<u32>, Option<&Kubelet>),
) -> Vec<Finding> {
    let mut findings = capability::examine(&settings.docker);
    if let Some(engine) = engine {
        let flags = daemon_flags(&settings.docker);
        findings.extend(flags.and_then(|flags| node::container_logs(engine, &flags)));
        findings.extend(node::disk(engine));
        findings.push(node::confinement(Modules::read(), engine));
    }
    let most = kubelet.and_then(|one| one.config.as_ref().ok()?.max_pods);
    let limits = server.map_or("/proc/self/limits".to_owned(), |pid| format!("/proc/{pid}/limits"));
    let limits = fs::read_to_string(limits).unwrap_or_default();
    findings.push(node::descriptors(&limits, most.unwrap_or(node::USUAL_PODS)));
    findings.extend(plugins::examine(&settings.nri, engine));
    findings.extend(runtimes::judge(&Others::read()));
    findings.push(paths::listen(&settings.listen));
    findings.push(paths::directory(Subject::State, "--state-dir", &settings.state_dir));
    findings.push(paths::directory(Subject::Run, "--run-dir", &settings.run_dir));
    findings
}

//! Checks everything that dockbridge needs on this host.

use tokio::task::spawn_blocking;

use super::{
    capability, cni, engine,
    finding::{Finding, Findings},
    paths, server,
};
use crate::{
    config::settings::Settings, engine::lock::EngineLocks, host::lock::Holder,
    model::network::NetworkMode,
};

/// What was found on a host.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// All findings.
    pub findings: Findings,
    /// The dockbridge that serves the engine.
    pub server: Option<Holder>,
}

/// Examines the host for these settings, and for a pod if one `will_run`. Changes nothing that
/// outlives the call: whether a directory can be written to is tried with a folder that is
/// removed again.
pub async fn examine(settings: &Settings, locks: &EngineLocks, will_run: bool) -> Examined {
    let mut findings = Vec::new();
    let mut server = None;
    match engine::ask(&settings.docker).await {
        Ok(info) => {
            findings.extend(engine::examine(&settings.docker, &info));
            let held = locks.holder(&info);
            findings.push(server::judge(&held, &settings.listen, will_run));
            server = held.ok().flatten();
        }
        Err(absent) => findings.push(absent),
    }
    findings.extend(match settings.network {
        NetworkMode::Cni => cni::examine(&settings.cni).await,
        NetworkMode::Docker | NetworkMode::Host => {
            vec![Finding::ok("network", "pods get addresses from the engine's own bridge")]
        }
    });
    let settings = settings.clone();
    let local = spawn_blocking(move || {
        let mut local = capability::examine(&settings.docker);
        local.push(paths::listen(&settings.listen));
        local.push(paths::directory("state", "--state-dir", &settings.state_dir));
        local.push(paths::directory("run", "--run-dir", &settings.run_dir));
        local
    });
    findings.extend(local.await.unwrap_or_default());
    Examined { findings: Findings(findings), server }
}

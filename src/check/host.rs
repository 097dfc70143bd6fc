//! Looks at everything dockbridge will need on this host.

use tokio::task::spawn_blocking;

use super::{
    capability, cni, engine,
    finding::{Finding, Findings},
    place,
};
use crate::{config::settings::Settings, model::network::NetworkMode};

/// Examines the host for these settings. Changes nothing that outlives the call: whether a
/// directory can be written to is tried with a folder that is removed again.
pub async fn examine(settings: &Settings) -> Findings {
    let mut findings = engine::examine(&settings.docker).await;
    findings.extend(match settings.network {
        NetworkMode::Cni => cni::examine(&settings.cni).await,
        NetworkMode::Docker | NetworkMode::Host => {
            vec![Finding::ok("network", "pods get addresses from the engine's own bridge")]
        }
    });
    let settings = settings.clone();
    let local = spawn_blocking(move || {
        let mut local = capability::examine(&settings.docker);
        local.push(place::listen(&settings.listen));
        local.push(place::directory("state", "--state-dir", &settings.state_dir));
        local.push(place::directory("run", "--run-dir", &settings.run_dir));
        local
    });
    findings.extend(local.await.unwrap_or_default());
    Findings(findings)
}

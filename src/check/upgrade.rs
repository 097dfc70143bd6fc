//! Reports what would happen to the pods of this node if an upgrade replaced Docker's programs.

use super::{
    engine,
    finding::{Finding, Findings},
    subject::Subject,
    takeover::by_pod,
};
use crate::{
    config::settings::Settings,
    engine::client::{Engine, Timeouts},
    model::{
        engine::{ApiVersion, EngineInfo},
        oci_edits::RUNTIME,
    },
};

pub(super) async fn examine(settings: &Settings) -> Findings {
    let engine = Engine::new(settings.docker.clone(), Timeouts::default());
    let asked = (engine::ask(&settings.docker).await, by_pod(&engine).await);
    let (info, (pods, containers)) = match asked {
        (Err(finding), _) | (_, Err(finding)) => return Findings(vec![finding]),
        (Ok(info), Ok(listed)) => (info, listed),
    };
    let mut findings = judge(&info);
    for pod in &pods {
        let own = containers.get(&pod.id).map_or(&[][..], Vec::as_slice);
        let running = own.iter().filter(|one| one.process.is_running()).count();
        let metadata = &pod.document.spec.metadata;
        let named = format!("{}/{}", metadata.namespace, metadata.name);
        findings.push(match (pod.is_running(), info.live_restore) {
            (true, false) => {
                let seen =
                    format!("{named} and its running containers ({running}) end when Docker stops");
                Finding::warn(Subject::Pod, seen, DRAIN)
            }
            (true, true) => Finding::ok(
                Subject::Pod,
                format!(
                    "{named} and its running containers ({running}) continue while Docker restarts"
                ),
            ),
            (false, _) => Finding::ok(Subject::Pod, format!("{named} has ended")),
        });
    }
    Findings(findings)
}

/// The findings about the engine, which do not depend on a pod.
fn judge(info: &EngineInfo) -> Vec<Finding> {
    let live_restore = match info.live_restore {
        true => Finding::ok(Subject::LiveRestore, KEEPS),
        false => {
            let seen = "live-restore is off: each container ends when Docker stops, and kubelet then replaces the pods";
            Finding::warn(Subject::LiveRestore, seen, TURN_ON)
        }
    };
    let api = format!(
        "Docker {} speaks API {}; dockbridge speaks API {} to {}: the minimum API version of a new Docker \
         must not be above this range",
        info.version,
        info.api,
        ApiVersion::OLDEST,
        ApiVersion::NEWEST
    );
    let store = format!(
        "the image store is {}; before an upgrade of Docker, set \"features\": \
         {{\"containerd-snapshotter\": {}}} in daemon.json, so that a new default cannot change the image store",
        info.storage_driver, info.containerd_store
    );
    let mut findings =
        vec![Finding::ok(Subject::Engine, api), Finding::ok(Subject::Engine, store), live_restore];
    if let Some(ours) = info.runtimes.get(RUNTIME) {
        let seen =
            format!("do not move or remove {}: Docker needs it while containers use it", ours.path);
        findings.push(Finding::ok(Subject::OciRuntime, seen));
    }
    findings
}

const KEEPS: &str = "live-restore is on: containers keep running while Docker restarts. For upgrades, Docker promises \
                     this between patch releases only; dockbridge's documentation lists tested upgrades";
const TURN_ON: &str = "drain the node, or set \"live-restore\": true in /etc/docker/daemon.json and run: \
                       systemctl reload docker";
const DRAIN: &str = "kubelet will replace the pod; drain the node to choose the time";

#[cfg(test)]
mod tests {
    use super::{
        super::{finding::Severity, tests::info},
        *,
    };

    #[test]
    fn only_live_restore_keeps_containers() {
        for (live_restore, severity) in [(true, Severity::Ok), (false, Severity::Warn)] {
            let findings = Findings(judge(&EngineInfo { live_restore, ..info() }));
            assert_eq!(findings.worst(), severity, "{findings}");
            assert!(findings.to_string().contains("1.41 to 1.55"), "{findings}");
        }
    }
}

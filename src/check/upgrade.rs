//! Reports what an exchange of Docker's programs would do to the pods of this node, before it begins.

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
        record::Process,
    },
};

/// What would happen to each pod, and on what the upgrade depends.
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
        let runs = pod.process.as_ref().is_some_and(Process::is_running);
        findings.push(match (runs, info.live_restore) {
            (true, false) => {
                let seen = format!("{named} ends with its {running} running containers");
                Finding::warn(Subject::Pod, seen, DRAIN)
            }
            (true, true) => Finding::ok(
                Subject::Pod,
                format!("{named} and its {running} containers keep running"),
            ),
            (false, _) => Finding::ok(Subject::Pod, format!("{named} has ended")),
        });
    }
    Findings(findings)
}

/// What does not depend on a pod.
fn judge(info: &EngineInfo) -> Vec<Finding> {
    let live_restore = match info.live_restore {
        true => Finding::ok(Subject::LiveRestore, KEEPS),
        false => {
            let seen = "off: every container ends when Docker stops, and kubelet starts it again";
            Finding::warn(Subject::LiveRestore, seen, TURN_ON)
        }
    };
    let api = format!(
        "Docker {} speaks API {}; a new Docker must speak one of {} to {}: see its minimum API version",
        info.version,
        info.api,
        ApiVersion::OLDEST,
        ApiVersion::NEWEST
    );
    let store = format!(
        "image store {}; to keep it whatever the new default is, set \"features\": \
         {{\"containerd-snapshotter\": {}}} in daemon.json",
        info.storage_driver, info.containerd_store
    );
    let mut findings =
        vec![Finding::ok(Subject::Engine, api), Finding::ok(Subject::Engine, store), live_restore];
    if let Some(ours) = info.runtimes.get(RUNTIME) {
        let seen = format!("{} must stay where it is: running containers need it", ours.path);
        findings.push(Finding::ok(Subject::OciRuntime, seen));
    }
    findings
}

const KEEPS: &str = "on: containers keep running. Docker promises this between patch releases only; \
                     dockbridge's documentation lists the upgrades that were tested";
const TURN_ON: &str = "drain the node, or set \"live-restore\": true in /etc/docker/daemon.json and run: \
                       systemctl reload docker";
const DRAIN: &str = "kubelet starts it again; drain the node to choose the time";

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

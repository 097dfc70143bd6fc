//! Reports what dockbridge would do with existing pods of cri-dockerd, dockershim or dockbridge.
//!
//! Making the report changes nothing on the host.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use super::{
    finding::{Finding, Findings, Severity},
    subject::Subject,
};
use crate::{
    checkpoint::directory::Checkpoints,
    config::{live::LiveSettings, settings::Settings},
    engine::client::{Engine, Timeouts},
    error::chain,
    host::netns::PinDirectories,
    model::{
        attachment::Attachment,
        id::SandboxId,
        network::NetworkMode,
        record::{ContainerRecord, Observed, SandboxRecord},
    },
    network::service::Network,
    sandbox::adopt::Adopter,
};

/// Findings about the pods in Docker and about containers without a pod, or about the call to Docker that failed.
pub async fn examine(settings: &Settings) -> Findings {
    let mut findings = Vec::new();
    let engine = Engine::new(settings.docker.clone(), Timeouts::default());
    let (pods, mut containers) = match by_pod(&engine).await {
        Ok(listed) => listed,
        Err(finding) => return Findings(vec![finding]),
    };
    let (checkpoints, known) = Checkpoints::examine(&settings.state_dir);
    let network = Network::start(LiveSettings::new(settings.clone()), QUESTION);
    let pins = PinDirectories::of(&settings.run_dir);
    let adopter = Adopter::new(engine, network, checkpoints, known.clone(), pins);
    for pod in &pods {
        let own = containers.remove(&pod.id).unwrap_or_default();
        let is_known = known.contains(&pod.id);
        let mut attachment = None;
        if !is_known {
            let Some(pod) = adopter.inspected(pod).await else { continue };
            attachment = adopter.find(&pod).await;
        }
        findings.push(judge(pod, &own, is_known, attachment.as_ref()));
    }
    findings.extend(orphans(&containers, &pods));
    Findings(findings)
}

/// The pods in the order of their names, and the containers of pods, also of missing pods, by the id of the pod.
pub(super) async fn by_pod(
    engine: &Engine,
) -> Result<(Vec<SandboxRecord>, BTreeMap<SandboxId, Vec<ContainerRecord>>), Finding> {
    let advice = "start Docker, or give the path of Docker's socket with --docker";
    let listed = engine.list_containers().await;
    let listed = listed.map_err(|e| Finding::fail(Subject::Engine, chain(&e), advice))?;
    let (mut pods, mut containers) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for observed in listed.into_iter().filter_map(|one| one.observed) {
        match *observed {
            Observed::Sandbox(pod) => pods.push(pod),
            Observed::Container(record) => {
                containers.entry(record.document.sandbox.clone()).or_default().push(record);
            }
            Observed::Foreign(_) => {}
        }
    }
    pods.sort_by(|one: &SandboxRecord, other| one.name.cmp(&other.name));
    Ok((pods, containers))
}

fn judge(
    pod: &SandboxRecord,
    containers: &[ContainerRecord],
    known: bool,
    attachment: Option<&Attachment>,
) -> Finding {
    let running = pod.is_running();
    let state = if running { "runs" } else { "has exited" };
    let live = containers.iter().filter(|one| one.process.is_running()).count();
    let of = format!("{live} of {} containers running", containers.len());
    let metadata = &pod.document.spec.metadata;
    let named = format!("{}/{} {state}, {of}", metadata.namespace, metadata.name);
    if known {
        return Finding::ok(
            Subject::Pod,
            format!("{named}; dockbridge already has the pod's checkpoint file"),
        );
    }
    let how = match (pod.document.network, attachment) {
        (NetworkMode::Host, _) => "the pod uses the host's network".to_owned(),
        (NetworkMode::Docker, _) => {
            format!("the pod is in Docker's network, {}", listed(&pod.engine_addresses))
        }
        (NetworkMode::Cni, Some(Attachment::Ready { cni, addresses, .. })) => {
            format!("network {}, {}", cni.network, listed(addresses))
        }
        (NetworkMode::Cni, Some(_)) if !running => "the pod's network will be released".to_owned(),
        (NetworkMode::Cni, _) if !running => "the pod has no network to release".to_owned(),
        (NetworkMode::Cni, _) => {
            return Finding::warn(
                Subject::Pod,
                format!("{named}; cannot find the pod's network"),
                "the pod will be NOTREADY, and kubelet will create another one: check that --cni-conf-dir \
                 and --cni-cache-dir are those of cri-dockerd",
            );
        }
    };
    Finding::ok(Subject::Pod, format!("{named}; {how}"))
}

fn orphans(
    left: &BTreeMap<SandboxId, Vec<ContainerRecord>>,
    pods: &[SandboxRecord],
) -> Option<Finding> {
    let there: HashSet<&SandboxId> = pods.iter().map(|pod| &pod.id).collect();
    let names: Vec<&str> = left
        .iter()
        .filter(|(pod, _)| !there.contains(pod))
        .flat_map(|(_, containers)| containers.iter().map(|one| one.name.as_str()))
        .collect();
    let advice = "kubelet removes these containers once their pods are deleted in the cluster";
    (!names.is_empty()).then(|| {
        Finding::warn(
            Subject::Runtimes,
            format!("containers whose pod is missing in Docker: {}", names.join(", ")),
            advice,
        )
    })
}

fn listed<T: ToString>(addresses: &[T]) -> String {
    match addresses {
        [] => "without an address".to_owned(),
        some => some.iter().map(T::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// How many pods stay as they are, and how many kubelet would recreate.
pub fn counted(findings: &Findings) -> (usize, usize) {
    let pods = || findings.0.iter().filter(|finding| finding.subject == Subject::Pod);
    let recreated = pods().filter(|finding| finding.severity > Severity::Ok).count();
    (pods().count() - recreated, recreated)
}

/// The result in a sentence. If the pods are known, `way_back` follows.
pub fn summary(findings: &Findings, way_back: &str) -> String {
    if findings.worst() == Severity::Fail {
        return "The pods are unknown: a call to Docker failed.\n".to_owned();
    }
    match counted(findings) {
        (0, 0) => format!("No pods exist.\n{way_back}"),
        (kept, recreated) => format!("Pods: {kept} kept, {recreated} recreated.\n{way_back}"),
    }
}

/// How to go back after a takeover.
pub const WAY_BACK: &str = "
The way back: stop dockbridge and start cri-dockerd with the same CNI directories. cri-dockerd lists
these pods and those that dockbridge created since, with their addresses. No container restarts. If
cri-dockerd stops a pod, it releases the pod's address and host ports. Containers whose logs dockbridge
wrote get no new log lines under cri-dockerd until they are restarted, because their log is a file, not a
link to Docker's.
";
/// How long a call to a CNI plugin may take.
const QUESTION: Duration = Duration::from_secs(10);

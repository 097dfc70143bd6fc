//! Targets of `make fuzz`: `parse` and `plan` get random CRI requests, and `observe` and `render` get random
//! answers of the engine.

#![allow(clippy::expect_used, clippy::panic, reason = "a target fails by panicking")]

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, LazyLock},
};

use prost::Message;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    limits::{self, cgroup_files},
    observe,
    parse::{self, error::ParseError},
    plan::{
        input::{ContainerInput, PodFiles, SandboxInput},
        sandbox::SandboxPlan,
        {container, sandbox, seccomp},
    },
    render,
};
use crate::{
    error::{Kind, WithKind},
    fuzz_input::texts,
    model::{
        container::{ContainerLogFormat, ContainerSpec},
        engine::{ApiVersion, EngineInfo},
        id::{ContainerId, ImageId},
        network::NetworkMode,
        record::{ContainerRecord, ImageRecord, Observed, SandboxRecord},
        resources::Resources,
        sandbox::SandboxSpec,
    },
    wire::{
        cri,
        docker::{
            ContainerCreateBody, ContainerInspect,
            summary::{ContainerSummary, ImageSummary},
        },
    },
};

/// Parses the bytes as CRI requests of several kinds. If `parse` or `plan` refuses a request, the message must
/// be short. If `plan` plans a pod or container, `observe` must read the same document that `plan` has written.
pub(crate) fn requests(bytes: &[u8]) {
    if let Ok(request) = cri::RunPodSandboxRequest::decode(bytes) {
        let spec = parse::sandbox::sandbox_spec(request.config.as_ref(), &request.runtime_handler);
        if let Some(spec) = accepted(spec) {
            planned_sandbox(&spec);
        }
    }
    if let Ok(request) = cri::CreateContainerRequest::decode(bytes) {
        let pod = request.sandbox_config.as_ref();
        let spec = parse::container::container_spec(request.config.as_ref(), pod);
        if let Some(spec) = accepted(spec) {
            planned_container(&spec);
        }
    }
    if let Ok(request) = cri::UpdateContainerResourcesRequest::decode(bytes)
        && let Some(requested) = accepted(limits::cri::update(&request))
    {
        planned_update(&requested);
    }
    if let Ok(request) = cri::UpdatePodSandboxResourcesRequest::decode(bytes) {
        accepted(limits::cri::pod_update(&request));
    }
    streams(bytes);
    if let Ok(request) = cri::PullImageRequest::decode(bytes) {
        let (image, auth) = (request.image.as_ref(), request.auth.as_ref());
        if let Some(pull) = accepted(parse::image::pull_request(image, auth)) {
            assert!(pull.reference.tag().or(pull.reference.digest()).is_some());
        }
    }
    if let Ok(request) = cri::UpdateRuntimeConfigRequest::decode(bytes) {
        let network = request.runtime_config.and_then(|config| config.network_config);
        accepted(parse::sandbox::pod_cidrs(&network.unwrap_or_default().pod_cidr));
    }
}

fn streams(bytes: &[u8]) {
    if let Ok(request) = cri::ExecSyncRequest::decode(bytes) {
        accepted(parse::stream::exec_sync_spec(&request));
    }
    if let Ok(request) = cri::ExecRequest::decode(bytes) {
        accepted(parse::stream::exec_spec(&request));
    }
    if let Ok(request) = cri::AttachRequest::decode(bytes) {
        accepted(parse::stream::attach_spec(&request));
    }
    if let Ok(request) = cri::PortForwardRequest::decode(bytes) {
        accepted(parse::stream::forward_spec(&request));
    }
}

/// Returns the parsed value, if `parse` accepts the request.
fn accepted<T>(outcome: Result<T, ParseError>) -> Option<T> {
    outcome
        .inspect_err(|error| {
            assert!(matches!(error.kind(), Kind::InvalidArgument | Kind::Unimplemented));
            assert!(error.to_string().len() < LONGEST_REFUSAL, "{error}");
        })
        .ok()
}

fn planned_sandbox(spec: &SandboxSpec) {
    kept(spec);
    without_nul(&SandboxSpec { annotations: BTreeMap::new(), ..spec.clone() });
    for engine in ENGINES.iter() {
        let Some(SandboxPlan { name, document, body, .. }) = plan_sandbox(spec, engine) else {
            continue;
        };
        let Observed::Sandbox(record) = observed(&name, &body) else {
            panic!("the plan is not a sandbox: {name}")
        };
        assert_eq!((&*record.document, &record.name), (&document, &name));
        check_sandbox(&record, Some(engine));
    }
}

/// Checks that a value is the same after it was stored as JSON and read again.
fn kept<T: Serialize + DeserializeOwned + PartialEq + Debug>(spec: &T) {
    let text = serde_json::to_string(spec).unwrap_or_default();
    assert_eq!(serde_json::from_str::<T>(&text).ok().as_ref(), Some(spec));
}

/// Checks that no text in `others` contains a NUL character. Callers leave out annotations, which may contain NULs.
fn without_nul(others: &impl Serialize) {
    let text = serde_json::to_string(others).unwrap_or_default();
    assert!(!text.contains("\\u0000"), "a NUL was let through");
}

fn plan_sandbox(spec: &SandboxSpec, engine: &EngineInfo) -> Option<SandboxPlan> {
    let input = SandboxInput {
        engine,
        pause: &IMAGE.id,
        network: NetworkMode::Cni,
        oom_floor: -1000,
        seccomp: Some(PROFILE),
        shim_group: "group",
    };
    sandbox::plan(spec.clone(), &input)
        .inspect_err(|error| assert!(error.to_string().len() < LONGEST_REFUSAL, "{error}"))
        .ok()
}

fn planned_container(spec: &ContainerSpec) {
    kept(spec);
    without_nul(&ContainerSpec { annotations: BTreeMap::new(), ..spec.clone() });
    let target = ContainerId::try_from("c".repeat(64)).ok();
    for engine in ENGINES.iter() {
        let input = ContainerInput {
            engine,
            sandbox: &POD,
            image: &IMAGE,
            oom_floor: -500,
            files: &PodFiles { resolv_conf: Some("/state/resolv".into()), ..PodFiles::default() },
            pid_target: target.as_ref(),
            log_format: ContainerLogFormat::Cri,
            seccomp: Some(PROFILE),
            accounts: None,
            is_adjustable: false,
            cdi: None,
            restore: None,
            image_volumes: &[],
        };
        let plan = match container::plan(spec.clone(), &input) {
            Ok(plan) => plan,
            Err(error) => {
                assert!(error.to_string().len() < LONGEST_REFUSAL, "{error}");
                continue;
            }
        };
        let Observed::Container(record) = observed(&plan.name, &plan.body) else {
            panic!("the plan is not a container: {}", plan.name)
        };
        assert_eq!((&*record.document, &record.name), (&plan.document, &plan.name));
        let host = plan.body.host_config.unwrap_or_default();
        assert!(host.oom_score_adj.is_none_or(|score| score >= input.oom_floor));
        assert!(host.memory_swap.is_none_or(|swap| swap == -1 || Some(swap) >= host.memory));
        check_container(&record);
    }
}

fn planned_update(requested: &Resources) {
    for before in
        [Resources::default(), Resources { memory_limit: 1 << 30, ..Resources::default() }]
    {
        let after = before.updated(requested);
        for engine in ENGINES.iter() {
            let _ = limits::docker::update(requested, &after, engine);
            let _ = cgroup_files::cgroup_files(&after, engine);
        }
    }
}

/// The result of `observe` for a container that was created with this body.
fn observed(name: &str, body: &ContainerCreateBody) -> Observed {
    let host = body.host_config.clone().unwrap_or_default();
    let inspect = json!({
        "Id": "a".repeat(64),
        "Name": format!("/{name}"),
        "Image": IMAGE.id.as_str(),
        "State": {"Status": "created"},
        "Config": {
            "Labels": body.labels, "Entrypoint": body.entrypoint, "Cmd": body.cmd, "Env": body.env,
        },
        "HostConfig": {
            "Mounts": host.mounts, "NetworkMode": host.network_mode.unwrap_or_default(),
            "IpcMode": host.ipc_mode.unwrap_or_default(),
            "CpuShares": host.cpu_shares.unwrap_or_default(), "Init": host.init,
        },
    });
    let inspect: ContainerInspect = serde_json::from_value(inspect).expect("an inspect");
    observe::container::observe(&inspect)
}

/// Observes the bytes as an inspect of a container. The record's document must stay the same when stored and read.
pub(crate) fn inspect(bytes: &[u8]) {
    if let Ok(inspect) = serde_json::from_slice::<ContainerInspect>(bytes) {
        check(&observe::container::observe(&inspect));
    }
}

/// Observes and renders containers and images from the engine's lists.
pub(crate) fn lists(bytes: &[u8]) {
    for text in texts(bytes) {
        let containers: Vec<ContainerSummary> = serde_json::from_str(text).unwrap_or_default();
        for entry in containers {
            check(&observe::listed::observe(entry));
        }
        let images: Vec<ImageSummary> = serde_json::from_str(text).unwrap_or_default();
        for image in images.into_iter().filter_map(observe::listed::observe_image) {
            let check = render::image::image(&image, false);
            assert!(check.size > 0 && !check.id.is_empty());
            let _ = render::image::info(&image);
        }
    }
}

/// Checks the text of a seccomp profile.
pub(crate) fn profile(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(reason) = seccomp::check(&text) {
        assert!(!reason.is_empty());
    }
}

fn check(observed: &Observed) {
    match observed {
        Observed::Sandbox(record) => check_sandbox(record, ENGINES.first()),
        Observed::Container(record) => check_container(record),
        Observed::Foreign(_) => {}
    }
}

fn check_sandbox(record: &SandboxRecord, engine: Option<&EngineInfo>) {
    let document = serde_json::to_value(&*record.document).expect("a document");
    let again = serde_json::from_value(document).ok();
    assert_eq!(again.as_ref(), Some(&*record.document), "a document is kept as it is");
    let (status, item) = (render::sandbox::status(record), render::sandbox::item(record));
    assert_eq!((status.id, status.state), (item.id, item.state));
    let _ = render::sandbox::info(record, engine, &Default::default());
}

fn check_container(record: &ContainerRecord) {
    let document = serde_json::to_value(&*record.document).expect("a document");
    let again = serde_json::from_value(document).ok();
    assert_eq!(again.as_ref(), Some(&*record.document), "a document is kept as it is");
    let view = render::container::ContainerView { record, image: Some(&IMAGE), limits: None };
    let (status, item) = (render::container::status(&view), render::container::item(record));
    assert_eq!((status.id, status.state), (item.id, item.state));
    let _ = render::container::info(record);
}

/// The pod of [`WORKLOAD`] and of the containers that [`requests`] plans.
pub(crate) static POD: LazyLock<SandboxRecord> = LazyLock::new(|| {
    let metadata = json!({"name": "web-0", "namespace": "default", "uid": "u-1", "attempt": 0});
    let spec = serde_json::from_value(json!({"metadata": metadata})).expect("a spec");
    let plan = plan_sandbox(&spec, ENGINES.first().expect("an engine")).expect("a plan");
    match observed(&plan.name, &plan.body) {
        Observed::Sandbox(record) => record,
        other => panic!("no sandbox: {other:?}"),
    }
});

pub(crate) static WORKLOAD: LazyLock<Arc<ContainerRecord>> = LazyLock::new(|| {
    let labels = json!({
        "io.kubernetes.docker.type": "container",
        "io.kubernetes.sandbox.id": "a".repeat(64),
    });
    let inspect = json!({
        "Id": "c".repeat(64), "Name": "/k8s_nginx_web-0_default_u-1_0", "Image": IMAGE.id.as_str(),
        "State": {"Status": "running", "Running": true, "Pid": 42}, "Config": {"Labels": labels},
        "HostConfig": {"NetworkMode": format!("container:{}", "a".repeat(64))},
    });
    let inspect: ContainerInspect = serde_json::from_value(inspect).expect("an inspect");
    match observe::container::observe(&inspect) {
        Observed::Container(record) => Arc::new(record),
        other => panic!("no container: {other:?}"),
    }
});

/// Three engines: an old one, one with systemd's cgroups, and one with AppArmor and SELinux.
static ENGINES: LazyLock<[EngineInfo; 3]> = LazyLock::new(|| {
    let features = json!({"mountOptions": ["rro"]}).to_string();
    let features = BTreeMap::from([("org.opencontainers.runtime-spec.features", features)]);
    let info = |driver: &str, cgroups: &str, options: Value| {
        json!({
            "CgroupDriver": driver, "CgroupVersion": cgroups, "DockerRootDir": "/var/lib/docker",
            "Runtimes": {"runc": {"status": features}, "crun": {}}, "KernelVersion": "6.1.0",
            "SecurityOptions": options, "CDISpecDirs": ["/etc/cdi"],
        })
    };
    let all = json!(["name=seccomp,profile=builtin", "name=apparmor", "name=selinux"]);
    [
        (41, info("cgroupfs", "1", json!([]))),
        (45, info("systemd", "2", json!(["name=seccomp,profile=default"]))),
        (53, info("cgroupfs", "2", all)),
    ]
    .map(|(api, info)| {
        let info = serde_json::from_value(info).expect("an info");
        observe::engine::observe(&Default::default(), &info, ApiVersion::new(api))
    })
});

static IMAGE: LazyLock<ImageRecord> = LazyLock::new(|| ImageRecord {
    id: ImageId::try_from(format!("sha256:{}", "b".repeat(64))).expect("an id"),
    repo_tags: vec!["nginx:latest".to_owned()],
    repo_digests: Vec::new(),
    size: 1,
    user: "daemon".to_owned(),
    labels: BTreeMap::new(),
    stop_signal: None,
    volumes: Default::default(),
    inspected: true,
});

const PROFILE: &str = r#"{"defaultAction":"SCMP_ACT_ALLOW"}"#;
/// An error of `parse` or `plan` must have fewer bytes.
const LONGEST_REFUSAL: usize = 2_000;

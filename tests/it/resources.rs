//! Updates of container limits, with the fake dockerd and cgroup files in a temporary directory.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use dockbridge::{
    container::{limits::service::Limits, service::Containers},
    error::{Failure, Kind},
    model::resources::Resources,
    store::handle::Store,
};
use serde_json::{Value, json};

use crate::{
    store::{pod, workload},
    support::{
        containers::Verbs,
        fake_dockerd::{
            fault::{Fault, Rule},
            server::{FakeDockerd, Recorded},
        },
    },
};

/// A running container with limits, and its cgroup.
struct Node {
    docker: FakeDockerd,
    root: tempfile::TempDir,
    container: String,
}

impl Node {
    async fn start() -> Self {
        let (docker, root) = (FakeDockerd::start().await, tempfile::tempdir().unwrap());
        let container = docker.world(|world| {
            let sandbox = pod(world, "web");
            world.start(&sandbox);
            let container = workload(world, &sandbox, "main");
            world.container_mut(&container).unwrap().body["HostConfig"] = json!({
                "NetworkMode": format!("container:{sandbox}"), "Init": false,
                "CpuShares": 512, "Memory": 64 << 20, "MemorySwap": 64 << 20, "OomScoreAdj": 900,
            });
            container
        });
        let node = Self { docker, root, container };
        let mount = node.root.path().join("cg");
        let table = format!("1 0 0:1 / {} rw - cgroup2 cgroup2 rw\n", mount.display());
        node.file("proc/self/mountinfo", &table);
        let process = format!("proc/{}", std::process::id());
        node.file(&format!("{process}/cgroup"), &format!("0::/{}\n", node.container));
        node.file(&format!("{process}/oom_score_adj"), "900");
        for (file, text) in [
            ("memory.max", "67108864"),
            ("memory.swap.max", "0"),
            ("memory.current", "40000000"),
            ("memory.stat", "inactive_file 10000000"),
            ("memory.low", "1000"),
            ("cpu.max", "max 100000"),
            ("cpu.weight", "20"),
        ] {
            node.file(&node.key(file), text);
        }
        node.docker.world(|world| world.start(&node.container));
        node
    }

    /// From now on, the engine reports the container as created and not started.
    fn was_never_started(&self) {
        self.docker.world(|world| {
            let container = world.container_mut(&self.container).unwrap();
            container.status = "created".to_owned();
            (container.started, container.finished) = (NEVER.to_owned(), NEVER.to_owned());
            container.pid = 0;
        });
    }

    /// The container calls, as after a start of dockbridge.
    async fn verbs(&self) -> (Limits, Store, Containers) {
        let (state, proc) = (self.path("state"), self.path("proc"));
        let verbs = Verbs::start(&self.docker, &state, &proc).await;
        (verbs.limits, verbs.node.store.clone(), verbs.containers)
    }

    fn key(&self, file: &str) -> String {
        format!("cg/{}/{file}", self.container)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn held(&self, file: &str) -> String {
        read(&self.path(&self.key(file)))
    }

    /// The bodies of the update requests that the engine has got so far.
    fn told(&self) -> Vec<Value> {
        let calls = self.docker.matching("POST /containers/*/update");
        calls.iter().map(Recorded::json).collect()
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}

async fn status(verbs: &(Limits, Store, Containers), id: &str) -> Resources {
    let now = verbs.1.snapshot();
    verbs.0.shown(now.container(id).unwrap()).await.unwrap()
}

fn keys(pairs: &[(&str, &str)]) -> Resources {
    let unified = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Resources { unified: unified.collect(), ..Resources::default() }
}

fn kind(outcome: Result<(), Failure>) -> (Kind, String) {
    let error = outcome.unwrap_err();
    (error.kind(), error.to_string())
}

#[tokio::test]
async fn what_the_engine_refuses_is_not_begun() {
    let node = Node::start().await;
    let verbs = node.verbs().await;
    let refusal = Fault::Status(400, "Minimum memory limit allowed is 6MB".to_owned());
    node.docker.inject(Rule::new("POST /containers/*/update", refusal));
    let asked = Resources { memory_limit: 90 << 20, ..keys(&[("memory.low", "2000")]) };
    let (kind, text) = kind(verbs.0.update(&node.container, asked).await);
    assert_eq!(kind, Kind::InvalidArgument);
    assert!(text.contains("6MB") && !text.contains("already set"), "{text}");
    assert_eq!(node.told().len(), 1);
    assert_eq!(node.held("memory.low"), "1000");
}

/// If the engine's update of a container fails, the engine may have set some of the limits, and the container's
/// status shows these limits.
#[tokio::test]
async fn what_the_engine_does_by_half_is_reported() {
    let node = Node::start().await;
    let verbs = node.verbs().await;
    let busy = Fault::Status(500, "device or resource busy".to_owned());
    node.docker.inject(Rule::new("POST /containers/*/update", busy).times(1));
    let asked = Resources { memory_limit: 90 << 20, cpu_quota: 10_000, ..Resources::default() };
    let (_, text) = kind(verbs.0.update(&node.container, asked.clone()).await);
    assert!(text.contains("resource busy"), "{text}");
    let new = 90_u64 << 20;
    let call = json!({ "CpuQuota": 10_000, "Memory": new, "MemorySwap": new });
    node.file(&node.key("cpu.max"), "10000 100000");
    assert_eq!(status(&verbs, &node.container).await.cpu_quota, 10_000);
    verbs.0.update(&node.container, asked).await.unwrap();
    assert_eq!(node.told(), [call.clone(), call]);
}

#[tokio::test]
async fn a_file_that_cannot_be_set_leaves_the_rest_set_and_named() {
    let node = Node::start().await;
    let verbs = node.verbs().await;
    let asked =
        Resources { cpu_shares: 800, ..keys(&[("memory.low", "2000"), ("memory.nonsense", "1")]) };
    let (kind, text) = kind(verbs.0.update(&node.container, asked).await);
    assert_eq!(kind, Kind::FailedPrecondition);
    assert!(text.contains("cannot set linux.resources.unified[\"memory.nonsense\"]"), "{text}");
    let set = "has already set or ignored: CpuShares, linux.resources.unified[\"memory.low\"]";
    assert!(text.ends_with(set), "{text}");
    assert_eq!(node.told(), [json!({ "CpuShares": 800 })]);
    assert_eq!(node.held("memory.low"), "2000");
    assert!(!node.path("state/resized.json").exists());
}

#[tokio::test]
async fn what_cannot_be_saved_is_set_and_named() {
    let node = Node::start().await;
    let verbs = node.verbs().await;
    fs::create_dir_all(node.path("state/resized.json/in the way")).unwrap();
    let (_, text) = kind(verbs.0.update(&node.container, keys(&[("memory.low", "2000")])).await);
    assert!(text.contains("cannot save the limits"), "{text}");
    assert!(
        text.ends_with("already set or ignored: linux.resources.unified[\"memory.low\"]"),
        "{text}"
    );
    assert_eq!(node.held("memory.low"), "2000");
}

#[tokio::test]
async fn changed_limits_survive_restarts_and_crashes() {
    let node = Node::start().await;
    let verbs = node.verbs().await;
    let asked = Resources { oom_score_adj: 950, ..keys(&[("memory.low", "2000")]) };
    verbs.0.update(&node.container, asked).await.unwrap();
    assert_eq!(node.held("memory.low"), "2000");
    assert!(node.told().is_empty(), "{:?}", node.told());
    let score = node.path(&format!("proc/{}/oom_score_adj", std::process::id()));
    assert_eq!(read(&score), "950");

    node.file(&node.key("memory.low"), "1000");
    fs::write(&score, "900").unwrap();
    let verbs = node.verbs().await;
    let before = status(&verbs, &node.container).await;
    assert_eq!((before.unified["memory.low"].as_str(), before.oom_score_adj), ("1000", 900));
    verbs.0.restore().await;
    let after = status(&verbs, &node.container).await;
    assert_eq!((after.unified["memory.low"].as_str(), after.oom_score_adj), ("2000", 950));
    assert_eq!((after.memory_limit, after.memory_swap_limit), (64 << 20, 64 << 20));
}

#[tokio::test]
async fn shrinking_below_the_working_set_touches_nothing() {
    let node = Node::start().await;
    let verbs = node.verbs().await;
    let asked = Resources { memory_limit: 20 << 20, cpu_shares: 2, ..Resources::default() };
    let (kind, text) = kind(verbs.0.update(&node.container, asked).await);
    assert_eq!(kind, Kind::FailedPrecondition);
    assert!(text.contains("30000000"), "{text}");
    assert!(node.told().is_empty());
}

#[tokio::test]
async fn equal_changes_are_one_and_others_wait() {
    let node = Node::start().await;
    let verbs = node.verbs().await;
    let late = Fault::Late(Duration::from_millis(50));
    node.docker.inject(Rule::new("POST /containers/*/update", late));
    let shares = |cpu_shares| Resources { cpu_shares, ..Resources::default() };
    let update = |cpu_shares| verbs.0.update(&node.container, shares(cpu_shares));
    let (one, two, other) = tokio::join!(update(600), update(600), update(700));
    one.and(two).and(other).unwrap();
    let mut told = node.told();
    told.sort_by_key(|body| body["CpuShares"].as_i64());
    assert_eq!(told, [json!({ "CpuShares": 600 }), json!({ "CpuShares": 700 })]);
}

#[tokio::test]
async fn nothing_asked_for_is_nothing_done() {
    let node = Node::start().await;
    let verbs = node.verbs().await;
    verbs.0.update(&node.container, Resources::default()).await.unwrap();
    let missing = verbs.0.update(&"e".repeat(64), Resources::default()).await;
    assert_eq!(kind(missing).0, Kind::NotFound);
    assert!(node.told().is_empty());
}

#[tokio::test]
async fn a_container_that_does_not_run_is_changed_in_the_engine() {
    let node = Node::start().await;
    node.was_never_started();
    let verbs = node.verbs().await;
    let asked =
        Resources { memory_limit: 32 << 20, oom_score_adj: 970, ..keys(&[("memory.low", "2000")]) };
    verbs.0.update(&node.container, asked).await.unwrap();
    assert_eq!(node.held("memory.low"), "1000");
    let told = status(&verbs, &node.container).await;
    assert_eq!((told.memory_limit, told.memory_swap_limit), (32 << 20, 32 << 20));
    assert_eq!((told.cpu_shares, told.oom_score_adj), (512, 970));
    verbs.2.start(&node.container).await.unwrap();
    assert_eq!(node.held("memory.low"), "2000");
}

#[tokio::test]
async fn a_container_does_not_run_without_what_it_asked_for() {
    let node = Node::start().await;
    node.was_never_started();
    let verbs = node.verbs().await;
    let usual = keys(&[("memory.oom.group", "1")]);
    verbs.0.update(&node.container, usual).await.unwrap();
    verbs.2.start(&node.container).await.unwrap();
    node.was_never_started();
    verbs.1.refresh_container(&node.container).await.unwrap();
    verbs.0.update(&node.container, keys(&[("memory.nonsense", "1")])).await.unwrap();
    let (kind, text) = kind(verbs.2.start(&node.container).await);
    assert_eq!(kind, Kind::FailedPrecondition);
    assert!(text.contains("memory.nonsense"), "{text}");
    let state = node.docker.world(|world| world.container(&node.container).unwrap().status.clone());
    assert_eq!(state, "exited");
}

/// The text that the engine reports for a time that is not set.
const NEVER: &str = "0001-01-01T00:00:00Z";

//! Container verbs against the fake dockerd.

use std::time::{Duration, Instant};

use dockbridge::{
    cdi::registry::Registry,
    container::room::{Containers, Hands},
    engine::client::{Engine, Patience},
    error::Kind,
    flight::lock::Locks,
    logs::room::Logs,
    model::container::ContainerLogFormat,
    rootfs::room::Rootfs,
    store::{gate::Gate, handle::Store, settings::StoreSettings},
};
use serde_json::json;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    store::{pod, workload},
    support::fake_dockerd::{
        fault::{Fault, Rule},
        server::FakeDockerd,
    },
};

/// The verbs over a fake engine that has one running container.
struct Node {
    docker: FakeDockerd,
    containers: Containers,
    container: String,
    _state: tempfile::TempDir,
}

impl Node {
    async fn start() -> Self {
        let docker = FakeDockerd::start().await;
        let container = docker.world(|world| {
            let sandbox = pod(world, "web");
            world.start(&sandbox);
            workload(world, &sandbox, "main")
        });
        let engine = Engine::new(docker.socket().to_owned(), Patience::default());
        let store =
            Store::start(engine.clone(), Vec::new(), StoreSettings::default(), Gate::open());
        store.synced(Duration::from_secs(10)).await.unwrap();
        let state = tempfile::tempdir().unwrap();
        let tracker = TaskTracker::new();
        let format = ContainerLogFormat::Docker;
        let logs = Logs::start(format, state.path().join("logs"), engine.clone());
        let hands = Hands {
            rootfs: Rootfs::new(engine.clone(), store.clone(), state.path(), &tracker),
            cdi: Registry::default(),
            engine,
            store,
            logs,
        };
        let containers = Containers::new(
            hands,
            Locks::default(),
            state.path(),
            (&tracker, &CancellationToken::new()),
        );
        Self { docker, containers, container, _state: state }
    }
}

/// Both calls are made before the task of the first has run at all.
#[tokio::test]
async fn a_shorter_stop_is_never_lost_in_a_longer_one() {
    let node = Node::start().await;
    let id = node.container.as_str();
    node.containers.start(id).await.unwrap();
    node.docker.world(|world| {
        world.container_mut(id).unwrap().takes_to_stop = Duration::from_secs(60);
    });
    let began = Instant::now();
    let (long, short) = tokio::join!(
        node.containers.stop(id, Duration::from_secs(30)),
        node.containers.stop(id, Duration::ZERO),
    );
    long.unwrap();
    short.unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_failed_start_is_told_even_when_nobody_can_look_afterwards() {
    let node = Node::start().await;
    let refusal = json!({ "message": "exec: \"nope\": executable file not found in $PATH" });
    node.docker.inject(Rule::new("POST /containers/*/start", Fault::Answer(400, refusal)));
    node.docker.inject(Rule::new("GET /containers/*/json", Fault::Status(500, "away".to_owned())));
    let error = node.containers.start(&node.container).await.unwrap_err();
    assert!(error.to_string().contains("not found in $PATH"), "{error}");
    assert_eq!(error.kind(), Kind::Unknown);
}

//! Tests that only one dockbridge serves an engine: a second one exits with an error that names the first.

use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

use dockbridge::{
    app::{environment::Environment, error::AppError},
    config::settings::Settings,
    error::chain,
    host::lock::Holder,
    model::network::NetworkMode,
    wire::cri::{
        self, image_service_client::ImageServiceClient,
        runtime_service_client::RuntimeServiceClient,
    },
};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use crate::support::{
    bridge::{Bridge, IMAGE, LONG, Node, docker, image, locks, pod, spawn},
    clock::{PAUSE, hurry},
    fake_dockerd::server::{FakeDockerd, eventually},
};

/// A second dockbridge, which may exit with an error at any time.
struct Second {
    settings: Settings,
    served: JoinHandle<Result<(), AppError>>,
    // If this sender is dropped, the server stops.
    _stop: oneshot::Sender<()>,
}

impl Second {
    /// A server that uses the locks of `engine`.
    fn start(settings: &Settings, engine: &FakeDockerd) -> Self {
        let (stop, stopped) = oneshot::channel();
        let environment = Environment { locks: locks(engine), ..Environment::default() };
        let served = spawn(settings.clone(), environment, LONG, stopped);
        Self { settings: settings.clone(), served, _stop: stop }
    }

    async fn channel(&self) -> Channel {
        let path = self.settings.listen.path().unwrap();
        eventually(|| path.exists()).await;
        let address = format!("unix://{}", path.display());
        Endpoint::from_shared(address).unwrap().connect().await.unwrap()
    }

    async fn client(&self) -> RuntimeServiceClient<Channel> {
        RuntimeServiceClient::new(self.channel().await)
    }

    async fn refused(&mut self) -> AppError {
        let ending = hurry(PAUSE, STEP, &mut self.served);
        let served = timeout(LONG, ending).await.expect("it ends in time");
        served.unwrap().expect_err("it is refused")
    }
}

/// Checks that the error names the engine and the dockbridge that serves it.
fn assert_told(refused: &AppError, first: &Bridge, engine: &FakeDockerd) {
    let AppError::EngineInUse { id, holder, .. } = refused else { panic!("{}", chain(refused)) };
    let socket = Some(first.node().path("cri.sock"));
    assert_eq!(*holder, Holder { pid: Some(std::process::id()), socket });
    assert_eq!(*id, id_of(engine));
    let text = refused.to_string();
    assert!(text.contains(&holder.to_string()) && text.contains(id), "{text}");
    assert!(text.contains("--docker"), "{text}");
}

fn id_of(engine: &FakeDockerd) -> String {
    engine.world(|world| world.info["ID"].as_str().unwrap().to_owned())
}

/// From now on, the fake engine `engine` has the id and data directory of `other`.
fn become_engine(engine: &FakeDockerd, other: &FakeDockerd) {
    let (id, root) =
        other.world(|world| (world.info["ID"].clone(), world.info["DockerRootDir"].clone()));
    engine.world(|world| {
        world.info["ID"] = id;
        world.info["DockerRootDir"] = root;
    });
}

/// The requests that could change something in the engine: all but GET and HEAD.
fn changes(engine: &FakeDockerd) -> Vec<String> {
    let calls = engine.requests().into_iter().map(|request| request.call());
    calls.filter(|call| !call.starts_with("GET ") && !call.starts_with("HEAD ")).collect()
}

#[tokio::test]
async fn a_second_one_is_refused_whatever_they_share() {
    let docker = docker().await;
    let first = Bridge::start(&docker).await;
    let id = first.run(&pod("p")).await.unwrap();
    let theirs = first.node().settings(docker.socket(), NetworkMode::Docker);
    let way = first.node().path("way.sock");
    symlink(docker.socket(), &way).unwrap();
    docker.forget_requests();
    for shared in ["nothing", "state", "run", "socket", "way", "run and socket"] {
        let node = Node::new();
        let mut settings = node.settings(docker.socket(), NetworkMode::Docker);
        if shared == "way" {
            settings.docker = way.clone();
        }
        if shared == "state" {
            settings.state_dir = theirs.state_dir.clone();
        }
        if shared.contains("run") {
            settings.run_dir = theirs.run_dir.clone();
        }
        if shared.contains("socket") {
            settings.listen = theirs.listen.clone();
        }
        let refused = Second::start(&settings, &docker).refused().await;
        if shared == "state" {
            let told = chain(&refused);
            let holder = format!("process {} serving {}", std::process::id(), theirs.listen);
            assert!(
                matches!(refused, AppError::StateDir { .. }) && told.contains(&holder),
                "{told}"
            );
        } else {
            assert_told(&refused, &first, &docker);
        }
        assert!(
            theirs.listen.path().unwrap().exists() && theirs.run_dir.join("admin.sock").exists(),
            "{shared}"
        );
        assert_eq!(first.pods().await.unwrap()[0].id, id, "{shared}");
    }
    assert_eq!(changes(&docker), [""; 0]);
    first.run(&pod("q")).await.unwrap();
    first.clear(&docker).await;
}

#[tokio::test]
async fn a_second_server_with_the_same_settings_names_the_first() {
    let docker = docker().await;
    let first = Bridge::start(&docker).await;
    let settings = first.node().settings(docker.socket(), NetworkMode::Docker);
    let told = chain(&Second::start(&settings, &docker).refused().await);
    let holder = format!("process {} serving {}", std::process::id(), settings.listen);
    assert!(told.contains(&holder), "{told}");
    assert!(first.ready().await.unwrap());
}

#[tokio::test]
async fn a_lock_file_of_an_ended_process_is_free() {
    let docker = docker().await;
    for _ in 0..3 {
        let stopped = Bridge::start(&docker).await;
        stopped.until_ready(true).await;
        stopped.stop().await;
        let killed = Bridge::start(&docker).await;
        killed.until_ready(true).await;
        drop(killed);
    }
    let held = fs::read_dir(docker.directory().join("locks")).unwrap();
    let names: Vec<_> = held.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        names.len() == 1 && names[0].to_str().unwrap().starts_with(&id_of(&docker)),
        "{names:?}"
    );
}

#[tokio::test]
async fn an_engine_that_comes_late_refuses_late() {
    let docker = docker().await;
    let first = Bridge::start(&docker).await;
    first.until_ready(true).await;
    docker.stop().await;
    let node = Node::new();
    let settings = node.settings(docker.socket(), NetworkMode::Docker);
    let mut second = Second::start(&settings, &docker);
    let mut client = second.client().await;
    let listed = hurry(PAUSE, STEP, pods(&mut client)).await;
    assert_eq!(listed.unwrap_err().code(), Code::Unavailable);
    let mut images = ImageServiceClient::new(second.channel().await);
    docker.forget_requests();
    docker.start_again(45, 24);
    let request = cri::RemoveImageRequest { image: Some(image(IMAGE)) };
    let both = async { tokio::join!(pods(&mut client), images.remove_image(request)) };
    let (listed, removed) = hurry(PAUSE, STEP, both).await;
    assert_eq!(listed.unwrap_err().code(), Code::Unavailable);
    assert_eq!(removed.unwrap_err().code(), Code::Unavailable);
    assert_told(&second.refused().await, &first, &docker);
    assert!(!settings.listen.path().unwrap().exists(), "its socket goes with it");
    first.until_ready(true).await;
    assert_eq!(changes(&docker), [""; 0]);
    first.run(&pod("p")).await.unwrap();
    first.clear(&docker).await;
}

#[tokio::test]
async fn an_engine_that_turns_out_to_be_another_one_refuses_too() {
    let (one, other) = (docker().await, docker().await);
    let first = Bridge::start(&one).await;
    first.until_ready(true).await;
    let node = Node::new();
    let settings = node.settings(other.socket(), NetworkMode::Docker);
    let mut second = Second::start(&settings, &one);
    let mut client = second.client().await;
    until_listed(&mut client).await;
    // dockbridge keeps the lock of the previous engine, because that engine may come back.
    let before = docker().await;
    become_engine(&before, &other);
    other.stop().await;
    other.world(|world| world.info["ID"] = "ANOTHER".into());
    other.start_again(45, 24);
    eventually(|| other.count("GET /containers/json") > 1).await;
    let late = Node::new();
    let late = late.settings(before.socket(), NetworkMode::Docker);
    let refused = Second::start(&late, &one).refused().await;
    assert!(refused.to_string().contains(&settings.listen.to_string()), "{refused}");
    assert!(!second.served.is_finished() && pods(&mut client).await.is_ok());

    other.stop().await;
    become_engine(&other, &one);
    other.start_again(45, 24);
    assert_told(&second.refused().await, &first, &one);
    assert!(first.serves() && first.ready().await.unwrap());
}

/// The engine socket may belong to another engine while the previous engine's event stream is still open.
#[tokio::test]
async fn another_engine_is_noticed_without_a_loss_of_the_stream() {
    let (one, other) = (docker().await, docker().await);
    let first = Bridge::start(&one).await;
    first.until_ready(true).await;
    let node = Node::new();
    let settings = node.settings(other.socket(), NetworkMode::Docker);
    let mut second = Second::start(&settings, &one);
    until_listed(&mut second.client().await).await;
    become_engine(&other, &one);
    other.world(|world| world.emit("daemon", "reload", "x", &serde_json::json!({})));
    assert_told(&second.refused().await, &first, &one);
}

#[tokio::test]
async fn engines_that_share_an_id_but_no_data_have_a_server_each() {
    let (one, other) = (docker().await, docker().await);
    let id = id_of(&one);
    other.world(|world| world.info["ID"] = id.into());
    let first = Bridge::start(&one).await;
    first.until_ready(true).await;
    let node = Node::new();
    let second = Second::start(&node.settings(other.socket(), NetworkMode::Docker), &one);
    until_listed(&mut second.client().await).await;
    assert!(first.serves());
}

#[tokio::test]
async fn an_engine_without_an_id_is_served() {
    let docker = docker().await;
    docker.world(|world| world.info["ID"] = "".into());
    let bridge = Bridge::start(&docker).await;
    bridge.until_ready(true).await;
    assert!(!docker.directory().join("locks").exists());
}

#[tokio::test]
async fn without_a_place_for_locks_nothing_is_served() {
    let docker = docker().await;
    fs::write(docker.directory().join("locks"), "in the way").unwrap();
    let node = Node::new();
    let settings = node.settings(docker.socket(), NetworkMode::Docker);
    let refused = Second::start(&settings, &docker).refused().await;
    let told = chain(&refused);
    let place = docker.directory().join("locks").display().to_string();
    assert!(matches!(refused, AppError::EngineLock { .. }) && told.contains(&place), "{told}");
    assert!(told.contains(&shown(docker.socket())), "{told}");
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

async fn pods(client: &mut RuntimeServiceClient<Channel>) -> Result<(), Status> {
    client.list_pod_sandbox(cri::ListPodSandboxRequest::default()).await.map(drop)
}

async fn until_listed(client: &mut RuntimeServiceClient<Channel>) {
    let listing = async {
        while pods(client).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, listing).await.expect("it knows its engine");
}

/// One step of the clock while a dockbridge waits for a lock or its clients wait for an engine.
const STEP: Duration = Duration::from_millis(200);

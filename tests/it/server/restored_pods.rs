//! Tests RestorePod with the fake dockerd: the pod checkpoint must be in the allowed directory and match the request,
//! and a failed call removes the pod and the containers that it has made, unless another call uses them.
//! `tests/stories/pod_checkpoints.rs` tests that restored processes continue.

use std::{fs, path::PathBuf, time::Duration};

use dockbridge::{
    app::environment::Environment, config::settings::Settings, model::network::NetworkMode,
    wire::cri,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::repeated_calls::let_go;
use crate::clock::forward;
use crate::support::{
    bridge::{Bridge, IMAGE, LONG, Node, container, docker, locks, pod},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::{FakeDockerd, eventually},
    },
};

/// A server, and the files of a pod checkpoint with two containers.
struct Scene {
    docker: FakeDockerd,
    bridge: Bridge,
    checkpoint: PathBuf,
}

impl Scene {
    async fn start() -> Self {
        let docker = docker().await;
        docker.world(|world| {
            world.info["Runtimes"]["dockbridge"] = json!({ "path": "dockbridge-runtime" });
        });
        let node = Node::new();
        let allowed = node.path("host");
        let settings = node.settings(docker.socket(), NetworkMode::Docker);
        let settings = Settings { restore_dir: Some(allowed.clone()), ..settings };
        let environment = Environment { locks: locks(&docker), ..Environment::default() };
        let bridge = Bridge::serve(settings, environment, node, LONG).await;
        let scene = Self { docker, bridge, checkpoint: allowed.join("web") };
        fs::create_dir(&scene.checkpoint).unwrap();
        scene.index(&index());
        for name in ["a", "b"] {
            scene.archive(name, &["sleep", "100"]);
        }
        scene
    }

    fn index(&self, index: &Value) {
        fs::write(self.checkpoint.join("pod.json"), index.to_string()).unwrap();
    }

    fn archive(&self, name: &str, args: &[&str]) {
        let file = fs::File::create(self.checkpoint.join(format!("{name}.tar"))).unwrap();
        let mut archive = tar::Builder::new(file);
        let config = json!({ "rootfsImageName": IMAGE });
        let spec = json!({ "process": { "args": args, "cwd": "/", "env": ["PATH=/bin", "A=1"] } });
        for (name, document) in [("config.dump", config), ("spec.dump", spec)] {
            let bytes = document.to_string().into_bytes();
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            archive.append_data(&mut header, name, &bytes[..]).unwrap();
        }
        archive.finish().unwrap();
    }

    fn request(&self) -> cri::RestorePodRequest {
        cri::RestorePodRequest {
            checkpoint_path: self.checkpoint.display().to_string(),
            config: Some(pod("later")),
            container_configs: vec![container("a"), container("b")],
            ..Default::default()
        }
    }

    async fn restore(
        &self,
        request: cri::RestorePodRequest,
    ) -> Result<cri::RestorePodResponse, tonic::Status> {
        Ok(self.bridge.runtime.clone().restore_pod(request).await?.into_inner())
    }

    /// Checks that dockbridge refuses `request` with this code and text, and that no pod is left.
    async fn refuses(&self, request: cri::RestorePodRequest, code: Code, text: &str) {
        let refused = self.restore(request).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
        assert!(refused.message().contains(text), "{text:?} is not in {refused}");
        assert!(self.bridge.pods().await.unwrap().is_empty(), "{text}");
        assert!(self.bridge.containers().await.unwrap().is_empty(), "{text}");
        let left = self.docker.world(|world| world.containers.len());
        assert_eq!(left, 0, "{text}");
    }
}

fn index() -> Value {
    let spec = dockbridge::model::sandbox::SandboxSpec::default();
    json!({ "version": 1, "sandbox": spec, "containers": ["a", "b"] })
}

#[tokio::test]
async fn the_containers_are_created_and_a_repeated_call_returns_the_same() {
    let scene = Scene::start().await;
    let restored = scene.restore(scene.request()).await.unwrap();
    assert_eq!(scene.restore(scene.request()).await.unwrap(), restored);
    let named = &restored.restored_containers;
    assert_eq!(named.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let mut listed = scene.bridge.containers().await.unwrap();
    listed.sort_by_key(|one| one.metadata.clone().unwrap().name);
    assert_eq!(listed.len(), 2);
    for (listed, restored) in listed.iter().zip(named) {
        assert_eq!(listed.id, restored.container_id);
        assert_eq!(listed.state(), cri::ContainerState::ContainerCreated);
        assert_eq!(listed.image.clone().unwrap().image, IMAGE);
    }
    let pods = scene.bridge.pods().await.unwrap();
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0].id, restored.pod_sandbox_id);
    scene.bridge.clear(&scene.docker).await;
}

#[tokio::test]
async fn a_checkpoint_that_is_not_allowed_or_does_not_fit_leaves_no_pod() {
    let scene = Scene::start().await;
    let with = |change: &dyn Fn(&mut cri::RestorePodRequest)| {
        let mut request = scene.request();
        change(&mut request);
        request
    };
    let refused = Code::InvalidArgument;
    let outside = with(&|it| it.checkpoint_path = "/var/lib".to_owned());
    scene.refuses(outside, refused, "dockbridge reads archives only from").await;
    let link = scene.checkpoint.with_file_name("link");
    std::os::unix::fs::symlink(&scene.checkpoint, &link).unwrap();
    let link = with(&|it| it.checkpoint_path = link.display().to_string());
    scene.refuses(link, refused, "Not a directory").await;
    let missing = with(&|it| it.checkpoint_path.push('x'));
    scene.refuses(missing, Code::NotFound, "No such file").await;
    let fewer = with(&|it| drop(it.container_configs.pop()));
    scene
        .refuses(fewer, refused, "must be the containers of the pod checkpoint: [\"a\", \"b\"]")
        .await;
    let other = with(&|it| it.container_configs[1] = container("c"));
    scene
        .refuses(other, refused, "must be the containers of the pod checkpoint: [\"a\", \"b\"]")
        .await;
    let command = with(&|it| it.container_configs[1].args = vec!["again".to_owned()]);
    scene.refuses(command, refused, "the command in the request differs").await;
    let directory = with(&|it| it.container_configs[1].working_dir = "/tmp".to_owned());
    scene.refuses(directory, refused, "the working directory in the request differs").await;
    let value = cri::KeyValue { key: "A".to_owned(), value: b"2".to_vec() };
    let environment = with(&|it| it.container_configs[1].envs = vec![value.clone()]);
    scene.refuses(environment, refused, "the environment in the request differs").await;
    scene.docker.world(|world| world.add_image("other:1"));
    let image = Some(cri::ImageSpec { image: "other:1".to_owned(), ..Default::default() });
    let image = with(&|it| it.container_configs[1].image.clone_from(&image));
    scene.refuses(image, refused, "the image in the request differs").await;

    fs::write(scene.checkpoint.join("b.tar"), "no archive").unwrap();
    scene.refuses(scene.request(), refused, "the archive").await;
    scene.index(&json!({ "version": 2, "sandbox": index()["sandbox"], "containers": [] }));
    scene.refuses(scene.request(), refused, "version 2").await;
    scene.index(&json!([]));
    scene.refuses(scene.request(), refused, "cannot start").await;
    let link = scene.checkpoint.join("pod.json");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    scene.refuses(scene.request(), refused, "not a regular file").await;
}

#[tokio::test]
async fn it_needs_our_runtime_and_the_setting() {
    let scene = Scene::start().await;
    scene.docker.world(|world| {
        world.info["Runtimes"].as_object_mut().unwrap().remove("dockbridge");
    });
    let node = scene.bridge.stop().await;
    let bridge = Bridge::start_on(node, &scene.docker, NetworkMode::Docker).await;
    let scene = Scene { bridge, ..scene };
    let unmet = Code::FailedPrecondition;
    scene.refuses(scene.request(), unmet, "restore-dir is not set").await;
    let Scene { docker, bridge, checkpoint } = scene;
    let node = bridge.stop().await;
    let allowed = checkpoint.parent().map(PathBuf::from);
    let settings = node.settings(docker.socket(), NetworkMode::Docker);
    let settings = Settings { restore_dir: allowed, ..settings };
    let environment = Environment { locks: locks(&docker), ..Environment::default() };
    let bridge = Bridge::serve(settings, environment, node, LONG).await;
    let scene = Scene { docker, bridge, checkpoint };
    scene.refuses(scene.request(), unmet, "dockbridge setup").await;
}

/// At the create, dockbridge compared the request with the archive, so the archive must not change before the start.
#[tokio::test]
async fn an_archive_that_was_exchanged_since_the_create_is_refused() {
    let scene = Scene::start().await;
    let restored = scene.restore(scene.request()).await.unwrap();
    scene.archive("a", &["sleep", "1000"]);
    let id = &restored.restored_containers[0].container_id;
    let refused = scene.bridge.start_container(id).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("changed or replaced"), "{refused}");
    assert_eq!(scene.docker.count("POST /containers/*/start"), 1, "only the sandbox");
    scene.bridge.clear(&scene.docker).await;
}

/// `dockbridge-runtime` kills a restore that hangs and reports what CRIU did last, so dockbridge waits longer
/// for a restore than `dockbridge-runtime`.
#[tokio::test]
async fn a_restore_has_more_time_than_other_starts() {
    let scene = Scene::start().await;
    let restored = scene.restore(scene.request()).await.unwrap();
    let id = &restored.restored_containers[0].container_id;
    let start = format!("POST /containers/{id}/start");
    let held = scene.docker.hold(&start);
    let (started, ()) = tokio::join!(scene.bridge.start_container(id), async {
        eventually(|| scene.docker.count(&start) == 1).await;
        forward(LONG + Duration::from_secs(80)).await;
        held.cancel();
    });
    started.unwrap();
    scene.bridge.clear(&scene.docker).await;
}

/// If RestorePod fails, it does not remove a pod that existed before the call, or its containers.
#[tokio::test]
async fn a_failure_takes_back_only_what_the_call_has_made() {
    let scene = Scene::start().await;
    let config = pod("later");
    let sandbox = scene.bridge.run(&config).await.unwrap();
    let own = scene.bridge.create(&sandbox, &container("own"), &config).await.unwrap();
    fs::write(scene.checkpoint.join("b.tar"), "no archive").unwrap();
    let refused = scene.restore(scene.request()).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    let left = scene.bridge.containers().await.unwrap();
    assert_eq!(left.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [own]);
    assert_eq!(scene.bridge.pods().await.unwrap()[0].id, sandbox);
    scene.bridge.clear(&scene.docker).await;
}

/// While RestorePod still runs, a RunPodSandbox for the same pod may arrive. The failed RestorePod must not remove
/// the pod that RunPodSandbox returns.
#[tokio::test]
async fn a_failure_does_not_take_the_pod_of_another_call() {
    let scene = Scene::start().await;
    fs::write(scene.checkpoint.join("b.tar"), "no archive").unwrap();
    let held = scene.docker.hold("POST /containers/create");
    let config = pod("later");
    let run = async {
        eventually(|| scene.docker.count("POST /containers/create") == 1).await;
        let (sandbox, ()) = tokio::join!(scene.bridge.run(&config), let_go(&held));
        sandbox.unwrap()
    };
    let (refused, sandbox) = tokio::join!(scene.restore(scene.request()), run);
    refused.unwrap_err();
    let left = scene.bridge.pods().await.unwrap();
    assert_eq!(left.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [sandbox]);
    scene.bridge.clear(&scene.docker).await;
}

#[tokio::test]
async fn a_failure_does_not_take_the_container_of_another_call() {
    let scene = Scene::start().await;
    fs::write(scene.checkpoint.join("b.tar"), "no archive").unwrap();
    let held = CancellationToken::new();
    let create = "POST /containers/create";
    // The engine holds the third create, which is the container `a`. The first two creates are the pause container and
    // the container through which dockbridge reads the image.
    scene.docker.inject(Rule::new(create, Fault::Held(held.clone())).after(2).times(1));
    let config = pod("later");
    let other = async {
        eventually(|| scene.docker.count(create) == 3).await;
        let sandbox = scene.bridge.pods().await.unwrap()[0].id.clone();
        let own = scene.bridge.create(&sandbox, &container("own"), &config).await.unwrap();
        held.cancel();
        own
    };
    let (refused, own) = tokio::join!(scene.restore(scene.request()), other);
    refused.unwrap_err();
    let left = scene.bridge.containers().await.unwrap();
    assert_eq!(left.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [own]);
    assert_eq!(scene.bridge.pods().await.unwrap().len(), 1);
    scene.bridge.clear(&scene.docker).await;
}

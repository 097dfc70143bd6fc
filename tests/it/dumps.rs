//! CheckpointContainer and CheckpointPod with the fake dockerd: which requests are refused, and how dockbridge removes
//! the unfinished container and pod checkpoints of an ended dockbridge. Complete ones need real containers: the stories
//! test them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use dockbridge::{
    container::{dump::service::Dumps, node::Node},
    error::{Failure, Kind},
    host::detached,
    model::dump::DumpSpec,
    translate::render::dump::files,
};
use serde_json::json;
use tokio::process::Child;
use tokio_util::task::TaskTracker;

use crate::{
    clock::forward,
    store::{pod, workload},
    support::{
        containers::Verbs,
        fake_dockerd::{
            fault::{Fault, Rule},
            server::{FakeDockerd, eventually},
        },
    },
};

/// A node with a running container.
struct Scene {
    docker: FakeDockerd,
    verbs: Verbs,
    dumps: Dumps,
    container: String,
    place: tempfile::TempDir,
}

impl Scene {
    async fn start() -> Self {
        let docker = FakeDockerd::start().await;
        let container = docker.world(|world| {
            let sandbox = pod(world, "web");
            world.start(&sandbox);
            let id = workload(world, &sandbox, "main");
            world.start(&id);
            id
        });
        let place = tempfile::tempdir().unwrap();
        let verbs = Verbs::start(&docker, place.path(), place.path()).await;
        let dumps = Self::dumps(&verbs.node, &place);
        Self { docker, verbs, dumps, container, place }
    }

    fn dumps(node: &Arc<Node>, place: &tempfile::TempDir) -> Dumps {
        let program = env!("CARGO_BIN_EXE_dockbridge").into();
        Dumps::new(node, place.path(), program, &TaskTracker::new())
    }

    fn spec(&self) -> DumpSpec {
        let location = self.place.path().join("out.tar");
        DumpSpec {
            sandbox: None,
            containers: vec![self.container.clone()],
            location,
            timeout: None,
        }
    }

    /// A request for a pod checkpoint into a directory, which is created if it is missing.
    fn pod_spec(&self) -> DumpSpec {
        let now = self.verbs.node.store.snapshot();
        let sandbox = now.container(&self.container).unwrap().document.sandbox.to_string();
        let location = self.place.path().join("out");
        fs::create_dir_all(&location).unwrap();
        DumpSpec { sandbox: Some(sandbox), location, ..self.spec() }
    }

    /// Starts another container in the pod, and returns its id.
    async fn other(&self) -> String {
        let sandbox = self.pod_spec().sandbox.unwrap();
        let id = self.docker.world(|world| {
            let id = workload(world, &sandbox, "other");
            world.start(&id);
            id
        });
        self.verbs.node.store.refresh_container(&id).await.unwrap();
        id
    }

    async fn refused(&self, spec: DumpSpec) -> (Kind, String) {
        let error = self.dumps.checkpoint(spec, files).await.unwrap_err();
        (error.kind(), error.to_string())
    }

    fn unfinished(&self) -> PathBuf {
        self.place.path().join("dumps").join(&self.container)
    }
}

/// Whether a container or pod checkpoint was refused because another one uses the same containers or files.
fn is_in_progress(error: &Failure) -> bool {
    error.kind() == Kind::FailedPrecondition && error.to_string().ends_with("is already being made")
}

/// Starts a process whose current directory is `directory`, and which is killed when the returned `Child` is dropped.
async fn program_in(directory: &Path) -> Child {
    let mut program = tokio::process::Command::new("cat");
    program.current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::null());
    let program = program.kill_on_drop(true).spawn().unwrap();
    eventually(|| detached::is_used(directory)).await;
    program
}

#[tokio::test]
async fn each_refusal_has_its_code_and_leaves_nothing() {
    let scene = Scene::start().await;
    let (kind, text) =
        scene.refused(DumpSpec { containers: vec!["x".to_owned()], ..scene.spec() }).await;
    assert_eq!((kind, text.as_str()), (Kind::NotFound, "container x is not known to dockbridge"));
    let nowhere = scene.place.path().join("nowhere/out.tar");
    let (kind, text) = scene.refused(DumpSpec { location: nowhere, ..scene.spec() }).await;
    assert_eq!(kind, Kind::InvalidArgument);
    assert!(text.ends_with("nowhere does not exist or is not a directory"), "{text}");
    fs::write(scene.spec().location, "").unwrap();
    let (kind, text) = scene.refused(scene.spec()).await;
    assert_eq!(kind, Kind::AlreadyExists, "{text}");
    fs::remove_file(scene.spec().location).unwrap();
    // The container checkpoint is refused, because the container's process is this test, which has no shim, or
    // because the machine lacks CRIU.
    let (kind, text) = scene.refused(scene.spec()).await;
    assert_eq!(kind, Kind::FailedPrecondition, "{text}");
    scene.docker.world(|world| {
        world.container_mut(&scene.container).unwrap().status = "paused".to_owned();
    });
    let (kind, text) = scene.refused(scene.spec()).await;
    assert_eq!(kind, Kind::FailedPrecondition);
    assert!(text.contains("is paused"), "{text}");
    scene.docker.world(|world| world.exit(&scene.container, 0));
    scene.verbs.node.store.refresh_container(&scene.container).await.unwrap();
    let (kind, text) = scene.refused(scene.spec()).await;
    assert_eq!(kind, Kind::FailedPrecondition);
    assert!(text.ends_with("is not running"), "{text}");
    assert!(!scene.unfinished().exists() && !scene.spec().location.exists());
}

/// A container checkpoint can continue after the deadline of its request. Until it has ended, dockbridge refuses
/// another one of the same container.
#[tokio::test]
async fn two_at_once_are_refused_also_after_the_deadline_of_the_first() {
    let scene = Scene::start().await;
    let inspect = format!("GET /containers/{}/json", scene.container);
    let held = scene.docker.hold(&inspect);
    let spec = DumpSpec { timeout: Some(Duration::from_secs(3)), ..scene.spec() };
    let dumps = scene.dumps.clone();
    let inspects = scene.docker.count(&inspect);
    let first = tokio::spawn(async move { dumps.checkpoint(spec, files).await });
    eventually(|| scene.docker.count(&inspect) > inspects).await;
    let second = scene.dumps.checkpoint(scene.spec(), files).await.unwrap_err();
    assert!(is_in_progress(&second), "{second}");
    forward(Duration::from_secs(4)).await;
    let first = first.await.unwrap().unwrap_err();
    assert!(first.kind() == Kind::DeadlineExceeded, "{first}");
    let third = scene.dumps.checkpoint(scene.spec(), files).await.unwrap_err();
    assert!(is_in_progress(&third), "{third}");
    held.cancel();
    loop {
        match scene.dumps.checkpoint(scene.spec(), files).await.unwrap_err() {
            error if is_in_progress(&error) => tokio::time::sleep(Duration::from_millis(5)).await,
            other => break assert_eq!(other.kind(), Kind::FailedPrecondition, "{other}"),
        }
    }
}

/// While a pod checkpoint is being made, dockbridge refuses another one of the same pod, because both would use the
/// same directory for their temporary files. dockbridge also refuses a container checkpoint to a path that the pod
/// checkpoint uses, even if the request reaches the path through a symbolic link.
#[tokio::test]
async fn other_containers_of_the_pod_or_the_same_place_are_refused_as_well() {
    let scene = Scene::start().await;
    let pod_spec = scene.pod_spec();
    let other = scene.other().await;
    let inspect = format!("GET /containers/{}/json", scene.container);
    let held = scene.docker.hold(&inspect);
    let inspects = scene.docker.count(&inspect);
    let link = scene.place.path().join("link");
    std::os::unix::fs::symlink(&pod_spec.location, &link).unwrap();
    let elsewhere = scene.place.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let first = scene.dumps.checkpoint(pod_spec.clone(), files);
    let others = async {
        eventually(|| scene.docker.count(&inspect) > inspects).await;
        let containers = vec![other];
        let same_pod =
            DumpSpec { location: elsewhere, containers: containers.clone(), ..pod_spec.clone() };
        let same_place = DumpSpec { sandbox: None, location: link, containers, timeout: None };
        let archive = same_place.location.join("main.tar");
        let same_archive = DumpSpec { location: archive, ..same_place.clone() };
        for spec in [same_pod, same_place, same_archive] {
            let error = scene.dumps.checkpoint(spec, files).await.unwrap_err();
            assert!(is_in_progress(&error), "{error}");
        }
        held.cancel();
    };
    tokio::join!(first, others).0.unwrap_err();
}

/// The `dump-container` program of an ended dockbridge still runs. Stops of the container wait for the end of
/// `dump-container`. After the end of `dump-container`, dockbridge thaws the container and removes the unfinished
/// container checkpoint.
#[tokio::test]
async fn what_an_ended_dockbridge_left_is_waited_for() {
    let scene = Scene::start().await;
    let (directory, freezer) = (scene.unfinished(), scene.place.path().join("freezer"));
    fs::create_dir_all(&directory).unwrap();
    fs::create_dir(&freezer).unwrap();
    fs::write(freezer.join("freezer.state"), "FROZEN").unwrap();
    let draft = scene.place.path().join(".out.tar.0.tmp");
    fs::write(&draft, "half").unwrap();
    fs::write(freezer.join("frozen"), "").unwrap();
    let part = json!({
        "container": scene.container, "directory": freezer, "command": [], "layer": "/",
        "freezer": { "directory": freezer, "is_v2": false },
    });
    let place = json!({ "draft": draft, "location": scene.spec().location });
    let order = json!({ "parts": [part], "places": [place] });
    fs::write(directory.join("order.json"), order.to_string()).unwrap();
    let program = program_in(&directory).await;

    let next = Scene::dumps(&scene.verbs.node, &scene.place);
    next.adopt_leftovers().await;
    let refused = next.checkpoint(scene.spec(), files).await.unwrap_err();
    assert!(is_in_progress(&refused), "{refused}");
    let (containers, id) = (scene.verbs.containers.clone(), scene.container.clone());
    let stopping = tokio::spawn(async move { containers.stop(&id, Duration::from_secs(1)).await });
    crate::clock::settle().await;
    assert!(!stopping.is_finished() && draft.exists());
    drop(program);
    stopping.await.unwrap().unwrap();
    eventually(|| !directory.exists()).await;
    assert!(!draft.exists());
    assert!(fs::read_to_string(freezer.join("freezer.state")).unwrap().starts_with("THAWED"));
    assert_eq!(scene.docker.count("POST /containers/*/stop"), 1);
}

/// A container belongs to two unfinished checkpoints, one of the container and one of its pod, because the files of the
/// first could not be removed. dockbridge thaws the container only after the programs of both checkpoints have ended.
#[tokio::test]
async fn two_leftovers_of_one_container_are_removed_together() {
    let scene = Scene::start().await;
    let freezer = scene.place.path().join("freezer");
    fs::create_dir(&freezer).unwrap();
    let state = || fs::read_to_string(freezer.join("freezer.state")).unwrap();
    fs::write(freezer.join("freezer.state"), "FROZEN").unwrap();
    fs::write(freezer.join("frozen"), "").unwrap();
    let part = json!({
        "container": scene.container, "directory": freezer, "command": [], "layer": "/",
        "freezer": { "directory": freezer, "is_v2": false },
    });
    let order = json!({ "parts": [part], "places": [] }).to_string();
    let of_pod = scene.place.path().join("dumps").join(scene.pod_spec().sandbox.unwrap());
    let directories = [scene.unfinished(), of_pod];
    for directory in &directories {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("order.json"), &order).unwrap();
    }
    let [mut one, other] = [program_in(&directories[0]).await, program_in(&directories[1]).await];
    let next = Scene::dumps(&scene.verbs.node, &scene.place);
    next.adopt_leftovers().await;
    one.kill().await.unwrap();
    detached::ended(&directories[0]).await;
    crate::clock::settle().await;
    for spec in [scene.spec(), scene.pod_spec()] {
        let refused = next.checkpoint(spec, files).await.unwrap_err();
        assert!(is_in_progress(&refused), "{refused}");
    }
    assert_eq!(state(), "FROZEN");
    drop(other);
    eventually(|| !directories.iter().any(|directory| directory.exists())).await;
    assert!(state().starts_with("THAWED"));
    let adopt = async || {
        fs::create_dir_all(scene.unfinished()).unwrap();
        fs::write(scene.unfinished().join("order.json"), &order).unwrap();
        Scene::dumps(&scene.verbs.node, &scene.place).adopt_leftovers().await;
        eventually(|| !scene.unfinished().exists()).await;
    };
    // A user has paused the container at the same moment, so dockbridge must leave the container frozen.
    fs::write(freezer.join("frozen"), "").unwrap();
    scene.docker.world(|world| {
        world.container_mut(&scene.container).unwrap().status = "paused".to_owned();
    });
    adopt().await;
    assert!(state().starts_with("FROZEN"));
    // A user had paused the container before the container checkpoint, and the engine does not answer.
    scene.docker.inject(Rule::new("GET /containers/*/json", Fault::Reset));
    adopt().await;
    assert!(state().starts_with("FROZEN"));
}

#[tokio::test]
async fn a_pod_is_refused_as_a_whole() {
    let scene = Scene::start().await;
    let of_pod = scene.docker.world(|world| {
        let sandbox = pod(world, "other");
        world.start(&sandbox);
        let id = workload(world, &sandbox, "main");
        world.start(&id);
        id
    });
    let both = vec![scene.container.clone(), of_pod.clone()];
    scene.verbs.node.store.refresh_container(&of_pod).await.unwrap();
    let foreign = DumpSpec { containers: both, ..scene.pod_spec() };
    let (kind, text) = scene.refused(foreign).await;
    assert_eq!(kind, Kind::InvalidArgument, "{text}");
    assert!(text.ends_with("is not in the pod"), "{text}");
    let unknown = DumpSpec { sandbox: Some("x".to_owned()), ..scene.pod_spec() };
    assert_eq!(
        scene.refused(unknown).await,
        (Kind::NotFound, "sandbox x is not known to dockbridge".to_owned())
    );
    let nowhere = DumpSpec { location: scene.place.path().join("no"), ..scene.pod_spec() };
    let (kind, text) = scene.refused(nowhere).await;
    assert_eq!(kind, Kind::InvalidArgument, "{text}");
    let location = scene.pod_spec().location;
    fs::write(location.join("old"), "").unwrap();
    let (kind, text) = scene.refused(scene.pod_spec()).await;
    assert_eq!(kind, Kind::FailedPrecondition);
    assert!(text.ends_with("is not empty"), "{text}");
    assert!(location.join("old").exists());
    fs::remove_file(location.join("old")).unwrap();
    // The pod checkpoint is refused, because the container's process is this test, which has no shim, or because
    // the machine lacks CRIU.
    let (kind, text) = scene.refused(scene.pod_spec()).await;
    assert_eq!(kind, Kind::FailedPrecondition, "{text}");
    assert_eq!(fs::read_dir(&location).unwrap().count(), 0);
    let sandbox = scene.pod_spec().sandbox.unwrap();
    scene.docker.world(|world| world.exit(&sandbox, 0));
    scene.verbs.node.store.refresh_container(&sandbox).await.unwrap();
    let (kind, text) = scene.refused(scene.pod_spec()).await;
    assert_eq!((kind, text), (Kind::FailedPrecondition, format!("sandbox {sandbox} is not ready")));
}

/// The archives of an unfinished pod checkpoint may already have their final names. The restarted dockbridge removes
/// the archives of a pod checkpoint whose own index does not have its final name. dockbridge does not remove a file
/// of another program that has the name of an archive or of the index.
#[tokio::test]
async fn only_an_unfinished_pod_is_removed_by_the_next_dockbridge() {
    for is_complete in [false, true] {
        let scene = Scene::start().await;
        let location = scene.pod_spec().location;
        let [archive, foreign, index] =
            ["main.tar", "foreign.tar", "pod.json"].map(|name| location.join(name));
        let places = [&archive, &foreign, &index].map(|path| {
            let draft = path.with_extension("tmp");
            fs::write(&draft, "").unwrap();
            json!({ "draft": draft, "location": path })
        });
        fs::hard_link(archive.with_extension("tmp"), &archive).unwrap();
        fs::write(&foreign, "").unwrap();
        if is_complete {
            fs::hard_link(index.with_extension("tmp"), &index).unwrap();
        } else {
            fs::write(&index, "").unwrap();
        }
        let directory = scene.place.path().join("dumps").join(scene.pod_spec().sandbox.unwrap());
        fs::create_dir_all(&directory).unwrap();
        let part = json!({
            "container": scene.container, "directory": "/", "command": [], "layer": "/",
            "freezer": { "directory": "/nowhere", "is_v2": true },
        });
        let order = json!({ "parts": [part], "places": places });
        fs::write(directory.join("order.json"), order.to_string()).unwrap();
        let program = program_in(&directory).await;
        let other = scene.other().await;
        let next = Scene::dumps(&scene.verbs.node, &scene.place);
        next.adopt_leftovers().await;
        let refused = next.checkpoint(scene.spec(), files).await.unwrap_err();
        assert!(is_in_progress(&refused), "{refused}");
        // dockbridge refuses a container checkpoint of another container to the same archive, because
        // dockbridge will remove the archive if the pod checkpoint is unfinished.
        let other = DumpSpec { location: archive.clone(), containers: vec![other], ..scene.spec() };
        let refused = next.checkpoint(other, files).await.unwrap_err();
        assert!(is_in_progress(&refused), "{refused}");
        drop(program);
        eventually(|| !directory.exists()).await;
        assert_eq!(archive.exists(), is_complete);
        assert!(foreign.exists() && index.exists());
        let left = fs::read_dir(&location).unwrap().count();
        assert_eq!(left, if is_complete { 3 } else { 2 }, "no temporary name is left");
    }
}

/// `dump-container` ends at once if the order file is missing. A restarted dockbridge renames the order file
/// of an ended dockbridge, so that a `dump-container` that starts late does nothing.
#[tokio::test]
async fn a_program_without_an_order_ends() {
    let place = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_dockbridge").as_ref();
    let arguments = ["dump-container".as_ref(), place.path().as_os_str()];
    let mut child = detached::start(program, &arguments, place.path(), "dockbridge-test").unwrap();
    assert!(!child.wait().await.unwrap().success());
    detached::ended(place.path()).await;
}

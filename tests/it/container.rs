//! Container calls with the fake dockerd.

use std::{
    collections::BTreeSet,
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use dockbridge::{
    checkpoint::envelope,
    container::service::Containers,
    error::{Failure, Kind, chain},
    model::{
        id::{ContainerId, ImageId},
        label,
        oci_edits::{OciEdits, REQUIRED_ANNOTATION, RUNTIME},
        security::{GroupsPolicy, RunAs},
        spec_edit::SpecEdit,
    },
    store::snapshot::Snapshot,
};
use serde_json::{Value, json};

use crate::{
    clock::forward,
    store::{pod, workload},
    support::{
        bridge::LONG,
        containers::Verbs,
        fake_dockerd::{
            fault::{Fault, Rule},
            server::{FakeDockerd, eventually},
            world::World,
        },
    },
};

/// Container calls, and a fake engine with a running pod whose container was not started.
struct Node {
    docker: FakeDockerd,
    containers: Containers,
    container: String,
    shared: Arc<dockbridge::container::node::Node>,
    state: tempfile::TempDir,
}

impl Node {
    async fn start() -> Self {
        let docker = FakeDockerd::start().await;
        let container = docker.world(|world| {
            let sandbox = pod(world, "web");
            world.start(&sandbox);
            workload(world, &sandbox, "main")
        });
        let state = tempfile::tempdir().unwrap();
        let Verbs { containers, node, .. } =
            Verbs::start(&docker, state.path(), state.path()).await;
        Self { docker, containers, container, shared: node, state }
    }
}

/// Makes the second stop call before the background task of the first call has run.
#[tokio::test]
async fn a_shorter_stop_is_never_lost_in_a_longer_one() {
    let node = Node::start().await;
    let id = node.container.as_str();
    node.containers.start(id).await.unwrap();
    node.docker.world(|world| {
        world.container_mut(id).unwrap().takes_to_stop = LONG * 2;
    });
    let began = Instant::now();
    let (long, short) =
        tokio::join!(node.containers.stop(id, LONG * 2), node.containers.stop(id, Duration::ZERO),);
    long.unwrap();
    short.unwrap();
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_failed_start_is_reported_also_without_an_inspect() {
    let node = Node::start().await;
    let refusal = json!({ "message": "exec: \"nope\": executable file not found in $PATH" });
    node.docker.inject(Rule::new("POST /containers/*/start", Fault::Answer(400, refusal)));
    node.docker.inject(Rule::new("GET /containers/*/json", Fault::Status(500, "away".to_owned())));
    let error = node.containers.start(&node.container).await.unwrap_err();
    assert!(error.to_string().contains("not found in $PATH"), "{error}");
    assert_eq!(error.kind(), Kind::Unknown);
}

/// The edits file of a container that needs `dockbridge-runtime` is written when the container is started, stays if the
/// start fails, and is removed with the container.
#[tokio::test]
async fn changes_of_the_oci_runtime_live_from_the_start_to_the_removal() {
    let node = Node::start().await;
    let image = node.image(&[]);
    let sandbox = node.running_pod().await;
    let spec = |name: &str, ambient: &[&str]| {
        let spec = json!({
            "metadata": { "name": name, "attempt": 0 },
            "image": image,
            "security": { "capabilities": { "ambient": ambient } },
        });
        serde_json::from_value(spec).unwrap()
    };
    let refused =
        node.containers.create(&sandbox, spec("early", &["CHOWN"]), None).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Unimplemented, "{refused}");

    node.docker.world(|world| {
        world.info["DefaultRuntime"] = json!("nvidia");
        world.info["Runtimes"][RUNTIME] = json!({ "path": "x" });
        let runc = "org.opencontainers.runc";
        let annotations = json!({format!("{runc}.version"): "1.3.0", format!("{runc}.commit"): ""});
        let features = json!({ "annotations": annotations });
        let status = json!({"org.opencontainers.runtime-spec.features": features.to_string()});
        world.info["Runtimes"]["nvidia"] =
            json!({ "path": "/opt/nvidia", "runtimeArgs": ["--a"], "status": status });
    });
    node.docker.hang_up();
    let described = |now: &Arc<Snapshot>| {
        let engine = now.engine.as_ref()?;
        engine.runtimes.contains_key(RUNTIME).then_some(())
    };
    node.shared.store.when(described).await;
    let plain = node.containers.create(&sandbox, spec("plain", &[]), None).await.unwrap();
    let id = node.containers.create(&sandbox, spec("main", &["CHOWN"]), None).await.unwrap();
    let created = node.docker.matching("POST /containers/create");
    let host = |at: usize| {
        let body: Value = serde_json::from_slice(&created[created.len() - at].body).unwrap();
        body["HostConfig"].clone()
    };
    assert_eq!(host(1)["Runtime"], RUNTIME);
    assert_eq!(host(1)["Annotations"][REQUIRED_ANNOTATION], "1");
    assert_eq!(
        (&host(2)["Runtime"], &host(2)["Annotations"][REQUIRED_ANNOTATION]),
        (&json!(null), &json!(null))
    );

    let directory = node.state.path().join("edits");
    let file = directory.join(id.as_str()).join("edits.json");
    assert!(!file.exists());
    let fault = Fault::Status(500, "no memory".to_owned());
    node.docker.inject(Rule::new("POST /containers/*/start", fault));
    node.containers.start(id.as_str()).await.unwrap_err();
    let edits: OciEdits = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let ambient = SpecEdit::add(&["process", "capabilities", "ambient"], ["CAP_CHOWN"]);
    assert!(edits.edits.contains(&ambient), "{edits:?}");
    assert_eq!(edits.runtime, ["/opt/nvidia", "--a"]);
    node.docker.clear_faults();
    node.containers.start(plain.as_str()).await.unwrap();
    assert!(!directory.join(plain.as_str()).exists());

    // The edits files of two other containers: one of another engine, and one that another client removed.
    let other = directory.join("f".repeat(64));
    let lost = directory.join("e".repeat(64));
    for (place, engine) in [(&other, "another".to_owned()), (&lost, edits.engine.clone())] {
        fs::create_dir(place).unwrap();
        let edits = OciEdits { engine, ..edits.clone() };
        fs::write(place.join("edits.json"), serde_json::to_vec(&edits).unwrap()).unwrap();
    }
    node.shared.sweep_edits(&BTreeSet::new()).await;
    assert!(file.exists() && other.exists() && !lost.exists());
    node.containers.remove(id.as_str()).await.unwrap();
    assert!(!directory.join(id.as_str()).exists());
}

/// dockbridge cannot read edits in the format of an earlier dockbridge. A container must not start without its edits,
/// because they may contain a plugin's seccomp filter.
#[tokio::test]
async fn a_container_whose_changes_have_an_earlier_form_is_not_started() {
    let node = Node::start().await;
    let sandbox = node.running_pod().await;
    let id = node.docker.world(|world| {
        let id = workload(world, &sandbox, "adjusted");
        let labels = &mut world.container_mut(&id).unwrap().labels;
        let document = labels.get_mut(label::CONTAINER_DOCUMENT).unwrap();
        let mut earlier: Value = serde_json::from_str(document).unwrap();
        earlier["is_adjustable"] = json!(true);
        *document = earlier.to_string();
        id
    });
    let limits = json!({&id: {"memory_limit": 1 << 30}});
    let adjustment = json!({"changes": {"seccomp": {"defaultAction": "SCMP_ACT_ERRNO"}}});
    let earlier = json!({"containers": limits, "pods": {}, "adjustments": {&id: adjustment}});
    fs::write(node.state.path().join("resized.json"), envelope::seal(&earlier).unwrap()).unwrap();
    let state = node.state.path();
    let Verbs { containers, node: shared, .. } = Verbs::start(&node.docker, state, state).await;
    let refused = containers.start(&id).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::FailedPrecondition);
    let text = refused.to_string();
    assert!(text.contains("NRI plugins") && text.contains("earlier dockbridge"), "{text}");
    assert!(shared.store.snapshot().container(&id).is_some(), "it is listed");
    containers.stop(&id, Duration::ZERO).await.unwrap();
    containers.remove(&id).await.unwrap();
    assert!(node.docker.matching("POST /containers/*/start").is_empty());
}

impl Node {
    /// Starts a pod, and returns its id when the store has the pod.
    async fn running_pod(&self) -> String {
        let sandbox = self.docker.world(|world| {
            let sandbox = pod(world, "own");
            world.start(&sandbox);
            sandbox
        });
        self.shared.store.refresh_container(&sandbox).await.unwrap();
        sandbox
    }

    /// Creates a container with this image and user in a new pod.
    async fn create(&self, image: &str, user: RunAs, policy: GroupsPolicy) -> Answer {
        let sandbox = self.running_pod().await;
        let spec = json!({
            "metadata": { "name": format!("{user:?}{policy:?}").replace(['(', ')', '"'], "-"), "attempt": 0 },
            "image": image,
            "security": { "identity": { "user": user, "groups_policy": policy } },
        });
        self.containers.create(&sandbox, serde_json::from_value(spec).unwrap(), None).await
    }

    fn image(&self, files: &[(&str, &str)]) -> String {
        self.docker.world(|world| {
            let id = world.add_image(&format!("accounts:{}", world.images.len()));
            let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
            world.images.last_mut().unwrap().files = files.collect();
            id
        })
    }
}

type Answer = Result<ContainerId, Failure>;

/// If the daemon's defaults have `max-buffer-size`, the engine refuses a blocking log, and dockbridge repeats the
/// create without one. dockbridge returns other errors of a create.
#[tokio::test]
async fn a_daemon_that_refuses_blocking_logs_still_gets_containers() {
    let node = Node::start().await;
    let image = node.image(&[]);
    node.docker.world(|world| world.buffers_logs = true);
    node.create(&image, RunAs::Image, GroupsPolicy::Merge).await.unwrap();
    let created = node.docker.matching("POST /containers/create");
    let mode = |at: usize| {
        let body: Value = serde_json::from_slice(&created[created.len() - at].body).unwrap();
        body["HostConfig"]["LogConfig"]["Config"]["mode"].clone()
    };
    assert_eq!((mode(2), mode(1)), (json!("blocking"), json!(null)));

    let refusal = json!({ "message": "invalid mount" });
    node.docker.inject(Rule::new("POST /containers/create", Fault::Answer(400, refusal)));
    let refused = node.create(&image, RunAs::Uid(7), GroupsPolicy::Merge).await.unwrap_err();
    assert!(refused.to_string().contains("invalid mount"), "{refused}");
    assert_eq!(refused.kind(), Kind::InvalidArgument);
}

const PASSWD: (&str, &str) = ("/etc/passwd", "app:x:1000:1001::/:\n");

#[tokio::test]
async fn one_inspection_reads_the_accounts_of_an_image() {
    let node = Node::start().await;
    let linked = ("/etc/group", "-> /usr/lib/group");
    let image = node.image(&[PASSWD, linked, ("/usr/lib/group", "more:x:2000:app\n")]);
    let name = || RunAs::Name("app".to_owned());
    let calls = [GroupsPolicy::Merge, GroupsPolicy::Strict]
        .map(|policy| node.create(&image, name(), policy));
    let [merge, strict] = calls;
    let (merge, strict) = tokio::join!(merge, strict);
    let user = |id: &ContainerId| {
        let record = node.shared.store.snapshot().container(id.as_str()).cloned().unwrap();
        record.document.user.clone().unwrap().groups
    };
    assert_eq!(user(&merge.unwrap()), [1001, 2000]);
    assert_eq!(user(&strict.unwrap()), [1001]);
    assert_eq!(node.docker.count("GET /containers/*/archive"), 2);
    let inspections = node.docker.matching("POST /containers/create");
    let inspections =
        inspections.iter().filter(|call| call.target.contains("dockbridge-image-inspection-"));
    assert_eq!(inspections.count(), 1);
    assert_eq!(node.docker.count("DELETE /containers/*"), 1);
}

#[tokio::test]
async fn a_failed_read_fails_only_its_callers() {
    let node = Node::start().await;
    let image = node.image(&[PASSWD]);
    let fault = Fault::Status(500, "no such storage".to_owned());
    node.docker.inject(Rule::new("GET /containers/*/archive", fault));
    let app = RunAs::Uid(1000);
    let error = node.create(&image, app.clone(), GroupsPolicy::Strict).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unknown);
    let id = node.create(&image, app, GroupsPolicy::Merge).await.unwrap();
    let record = node.shared.store.snapshot().container(id.as_str()).cloned().unwrap();
    assert_eq!(record.document.user, None);
    let left = node.docker.world(|world| {
        world
            .containers
            .iter()
            .filter(|one| one.name.starts_with("dockbridge-image-inspection-"))
            .count()
    });
    assert_eq!(left, 0);
}

/// A create that needs the image's accounts fails if `/etc/passwd` is larger than 1 MiB. If another dockbridge removes
/// the container from which a file is read, dockbridge repeats the read.
#[tokio::test]
async fn looks_are_bounded_and_taken_again() {
    let node = Node::start().await;
    let large = "#".repeat((1 << 20) + 1);
    let image = node.image(&[("/etc/passwd", &large)]);
    let error = node.create(&image, RunAs::Image, GroupsPolicy::Strict).await.unwrap_err();
    assert_eq!(error.kind(), Kind::FailedPrecondition);

    let image = node.image(&[PASSWD]);
    let gone = json!({ "message": "No such container: aaa" });
    node.docker.inject(Rule::new("GET /containers/*/archive", Fault::Answer(404, gone)).times(1));
    node.create(&image, RunAs::Name("app".to_owned()), GroupsPolicy::Strict).await.unwrap();
}

/// If the image is missing, dockbridge does not repeat the read of its files.
#[tokio::test]
async fn a_missing_image_is_inspected_once() {
    let node = Node::start().await;
    let image = node.image(&[PASSWD]);
    let gone = json!({ "message": "No such image: gone" });
    node.docker.inject(Rule::new("POST /containers/create", Fault::Answer(404, gone)));
    let error = node.create(&image, RunAs::Image, GroupsPolicy::Strict).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert_eq!(node.docker.count("POST /containers/create"), 1);
}

/// At a container's start, the engine opens the image's `passwd` and `group` files, and hangs if one of them
/// is a pipe without a writer.
#[tokio::test]
async fn accounts_in_a_pipe_are_refused_for_any_user() {
    let node = Node::start().await;
    let linked = ("/etc/group", "-> /run/pipe");
    let late = Fault::Late(Duration::from_millis(100));
    node.docker.inject(Rule::new("HEAD /containers/*/archive", late).after(1));
    for files in [
        vec![("/etc/group", "a pipe"), PASSWD],
        vec![linked, ("/run/pipe", "a pipe"), PASSWD],
        vec![("/etc/passwd", "a pipe"), ("/etc/group", "more:x:2000:app\n")],
    ] {
        let image = node.image(&files);
        for user in [RunAs::Uid(1000), RunAs::Image] {
            let error = node.create(&image, user, GroupsPolicy::Merge).await.unwrap_err();
            assert_eq!(error.kind(), Kind::FailedPrecondition);
            let path = files[0].0;
            // To read a file of the image, the engine would look up the file's owner in `passwd` and `group`.
            assert_eq!(node.docker.count("GET /containers/*/archive"), 0, "it would hang");
            assert!(chain(&error).contains(&format!("{path} in the image")), "{}", chain(&error));
        }
    }
}

/// dockbridge does not remove a container that has only the label or only the name of an inspection container, because
/// the container may be a user's.
#[tokio::test]
async fn leftover_inspection_containers_are_removed() {
    let node = Node::start().await;
    let image = node.image(&[]);
    let inspection =
        node.shared.image_files.inspect(&ImageId::try_from(image.as_str()).unwrap()).await.unwrap();
    let own = node.docker.world(|world| {
        let body = json!({ "Image": image, "Labels": { "io.dockbridge.image-inspection": "1" } });
        world.add_container("dockbridge-image-inspection-0-0", body.clone());
        world.add_container("dockbridge-image-inspection-0-1", json!({ "Image": image }));
        world.add_container("somebodys", body);
        world.containers.len()
    });
    node.shared.image_files.sweep_inspections().await.unwrap();
    assert_eq!(node.docker.world(|world| world.containers.len()), own - 1);
    assert_eq!(inspection.step("/nothing").await.unwrap(), None);
    drop(inspection);
    eventually(|| node.docker.world(|world| world.containers.len()) == own - 2).await;
}

/// Adds a container with an image volume whose image dockbridge has unpacked.
fn made_of(world: &mut World, name: &str, image: &str) {
    let sandbox = pod(world, name);
    world.start(&sandbox);
    let id = workload(world, &sandbox, name);
    let labels = &mut world.container_mut(&id).unwrap().labels;
    let document = labels.get_mut(label::CONTAINER_DOCUMENT).unwrap();
    let mut told: serde_json::Value = serde_json::from_str(document).unwrap();
    told["image_volumes"] = json!([{ "image": image, "unpacked": true }]);
    *document = told.to_string();
}

#[tokio::test]
async fn an_image_that_is_gone_keeps_no_other_from_being_guarded() {
    let docker = FakeDockerd::start().await;
    let gone = format!("sha256:{:064x}", 0);
    let there = docker.world(|world| {
        let there = world.add_image("there:1");
        made_of(world, "a", &gone);
        made_of(world, "b", &there);
        there
    });
    let state = tempfile::tempdir().unwrap();
    let Verbs { node, .. } = Verbs::start(&docker, state.path(), state.path()).await;
    let restoring = tokio::spawn(async move { node.image_files.restore_volumes().await });
    let made = |image: &str| {
        let name = format!("dockbridge-image-pin-{}", image.replace(':', "-"));
        docker.world(|world| world.container(&name).is_some())
    };
    eventually(|| made(&there)).await;
    assert!(!made(&gone));
    docker.world(|world| world.add_image_of("gone:1", Some(gone.clone())));
    let until = Instant::now() + LONG;
    while !made(&gone) {
        assert!(Instant::now() < until, "it is not tried again");
        forward(Duration::from_secs(300)).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    // dockbridge also tries again to mount the image that exists, because its layers were not found.
    let layers = format!("GET /images/{there}/json");
    let tried = docker.count(&layers);
    let until = Instant::now() + LONG;
    while docker.count(&layers) == tried {
        assert!(Instant::now() < until, "the mount is not tried again");
        forward(Duration::from_secs(300)).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    restoring.abort();
}

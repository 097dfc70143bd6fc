//! Pod calls with the fake dockerd: for example pods that Docker lost, name conflicts, and starts that fail or hang.

use std::{
    collections::HashSet, fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration,
};

use dockbridge::{
    checkpoint::{directory::Checkpoints, record::SandboxCheckpoint},
    concurrency::{keyed_locks::KeyedLocks, named::Named},
    config::{
        live::LiveSettings,
        settings::{CniSettings, Settings},
    },
    container::{
        limits::service::Limits, node, oci_runtime_files::OciRuntimeFiles, pod_files::PodFilesRoot,
        saved_changes::SavedChanges, service::Containers,
    },
    engine::client::{Engine, Timeouts},
    host::{
        cgroup::Cgroups,
        file::Durability,
        netns::{self, PinDirectories},
    },
    image::{kubelet_images::KubeletImages, service::Images},
    image_files::service::ImageFiles,
    logs::service::Logs,
    model::{
        attachment::{Attachment, CniAttachment, PodNetwork},
        container::ContainerLogFormat,
        id::SandboxId,
        network::NetworkMode,
        oci_edits::OciEdits,
        sandbox::SandboxSpec,
        time::Nanos,
    },
    network::service::Network,
    oci_runtime::directory::EditsDirectory,
    sandbox::{
        adopt::Adopter,
        service::{SandboxDependencies, Sandboxes},
    },
    store::{handle::Store, hooks::NoHooks, oom::OomDetector, settings::StoreSettings},
};
use serde_json::json;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    skips::{Lack, skip},
    support::{
        bridge::LONG,
        default_settings,
        fake_dockerd::{
            fault::{Fault, Rule},
            server::{FakeDockerd, eventually},
        },
    },
};

mod unknown_pods;
mod user_namespaces;

/// A dockbridge with a fake engine. The files of this dockbridge are below `root`.
struct Node {
    docker: FakeDockerd,
    root: tempfile::TempDir,
}

impl Node {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let plugin = root.path().join("bin/quiet");
        fs::create_dir(root.path().join("bin")).unwrap();
        let script = format!("#!/bin/sh\necho $CNI_COMMAND >> {}/calls\n", root.path().display());
        fs::write(&plugin, script).unwrap();
        fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
        Self { docker: FakeDockerd::start().await, root }
    }

    /// The pod calls of a newly started dockbridge.
    async fn start(&self) -> Sandboxes {
        let checkpoints = self.checkpoints();
        let known = checkpoints.load().await.sandboxes;
        let engine = Engine::new(self.docker.socket().to_owned(), Timeouts::default());
        let store = Store::start(
            engine.clone(),
            known,
            StoreSettings::default(),
            NoHooks,
            OomDetector::default(),
        );
        store.synced(LONG).await.unwrap();
        let tracker = TaskTracker::new();
        let state = self.root.path().join("state");
        let logs = Logs::start(ContainerLogFormat::Docker, state.join("logs")).await;
        let node = Arc::new(node::Node {
            engine: engine.clone(),
            store: store.clone(),
            logs,
            image_files: ImageFiles::new(engine.clone(), store.clone(), &state, &tracker),
            live: LiveSettings::new(default_settings()),
            cgroups: Cgroups::from_proc(&state),
            oci_runtime_files: OciRuntimeFiles::new(
                EditsDirectory::new(self.root.path().join("edits")),
                &self.root.path().join("run"),
                self.root.path(),
            ),
            nri: dockbridge::nri::service::Nri::default(),
            saved_changes: SavedChanges::load(checkpoints.clone()).await,
            locks: KeyedLocks::default(),
            cancellations: Named::default(),
            pod_files: PodFilesRoot::new(state.join("pods")),
            oom_floor: Default::default(),
        });
        let limits = Limits::new(&node, &tracker);
        let containers = Containers::new(&node, &limits, &tracker);
        let images = Images::new(
            engine.clone(),
            store.clone(),
            LiveSettings::new(default_settings()),
            KubeletImages::load(checkpoints.clone()).await,
            &tokio_util::task::TaskTracker::new(),
        );
        let cni = CniSettings {
            conf_dir: self.root.path().join("conf"),
            bin_dirs: vec![self.root.path().join("bin")],
            cache_dir: self.root.path().join("cache"),
        };
        let settings = Settings { cni, ..default_settings() };
        let network = Network::start(LiveSettings::new(settings), LONG);
        let rooms = SandboxDependencies { node, checkpoints, network, images, limits, containers };
        let pins = PinDirectories::of(&self.root.path().join("run"));
        let network = rooms.network.clone();
        let adopter =
            Adopter::new(engine, network, rooms.checkpoints.clone(), HashSet::new(), pins.clone());
        Sandboxes::new(rooms, NetworkMode::Cni, (pins, adopter), &tracker)
    }

    fn checkpoints(&self) -> Checkpoints {
        Checkpoints::open(&self.root.path().join("state")).unwrap()
    }

    /// Writes what an earlier dockbridge process would have stored for a sandbox that Docker does not have.
    async fn remember(&self, id: &SandboxId, released: bool) {
        let spec = spec("lost", false);
        let pod = PodNetwork {
            id: id.clone(),
            metadata: spec.metadata.clone(),
            netns: self.root.path().join("run/netns").join(id.as_str()),
            ports: Vec::new(),
            dns: None,
            annotations: Default::default(),
            cgroup_parent: String::new(),
        };
        let config =
            json!({ "cniVersion": "0.4.0", "name": "n", "plugins": [{ "type": "quiet" }] });
        let cni = CniAttachment {
            pod,
            network: "n".to_owned(),
            interface: "eth0".to_owned(),
            config: config.to_string(),
            pod_cidrs: Vec::new(),
            capabilities: None,
        };
        let attachment = if released { Attachment::Released } else { Attachment::Adding(cni) };
        let document =
            serde_json::from_value(json!({"version": 1, "spec": spec, "network": "cni"})).unwrap();
        let checkpoint = SandboxCheckpoint {
            id: id.clone(),
            name: "k8s_POD_lost".to_owned(),
            document,
            created_at: Nanos(1),
            attachment: Some(attachment),
        };
        self.checkpoints().save(&checkpoint, Durability::Written).await.unwrap();
        fs::create_dir_all(self.files().join(id.as_str())).unwrap();
    }

    /// A node with a CNI network and an engine that has `dockbridge-runtime`, or `None` if the test is not
    /// permitted to create namespaces.
    async fn with_oci_runtime() -> Option<Self> {
        let node = Self::new().await;
        let conf = node.root.path().join("conf");
        fs::create_dir(&conf).unwrap();
        let list = json!({ "cniVersion": "0.4.0", "name": "n", "plugins": [{ "type": "quiet" }] });
        fs::write(conf.join("10-n.conflist"), list.to_string()).unwrap();
        let script = "#!/bin/sh\n[ $CNI_COMMAND = VERSION ] && echo '{\"supportedVersions\":[\"0.4.0\"]}' && exit\n\
                      echo $CNI_COMMAND >> CALLS\n\
                      echo '{\"cniVersion\":\"0.4.0\",\"ips\":[{\"version\":\"4\",\"address\":\"10.9.0.2/24\"}]}'\n";
        let calls = node.root.path().join("calls").display().to_string();
        fs::write(node.root.path().join("bin/quiet"), script.replace("CALLS", &calls)).unwrap();
        node.docker.world(|world| {
            world.info["Runtimes"]["dockbridge"] = json!({ "path": "dockbridge-runtime" });
        });
        let probe = node.root.path().join("probe");
        let may = netns::make(&probe).and_then(|()| netns::unpin(&probe));
        if may.is_err() {
            skip(Lack::SysAdmin);
        }
        may.ok().map(|()| node)
    }

    /// Starts a process that joins the pod's network namespace, like the pod's pause container.
    async fn joins(&self) -> std::process::Child {
        let pins = self.root.path().join("run/netns");
        let first = || fs::read_dir(&pins).ok()?.next()?.ok().map(|pin| pin.path());
        eventually(|| first().is_some_and(|pin| netns::is_pinned(&pin))).await;
        let pin = first().unwrap();
        let net = format!("--net={}", pin.display());
        let pause = std::process::Command::new("nsenter").args([&net, "sleep", "60"]).spawn();
        let pause = pause.unwrap();
        eventually(|| netns::is_of(pause.id(), &pin)).await;
        self.docker.world(|world| world.pid = pause.id());
        pause
    }

    /// Waits until the CNI plugin was called, and then lets the engine start the pod's container.
    async fn adds_beside(&self, start: &CancellationToken) {
        eventually(|| self.calls() == ["ADD"]).await;
        start.cancel();
    }

    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.root.path().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    fn holds_no_namespace(&self) -> bool {
        is_empty(&self.root.path().join("run/netns")) && is_empty(&self.root.path().join("edits"))
    }

    fn files(&self) -> std::path::PathBuf {
        self.root.path().join("state/pods")
    }

    fn end_pause(&self) {
        self.docker.world(|world| {
            let id = world.containers[0].id.clone();
            world.exit(&id, 159);
        });
    }

    fn keeps_no_checkpoint(&self) -> bool {
        is_empty(&self.root.path().join("state/sandboxes"))
    }

    fn keeps_nothing(&self) -> bool {
        is_empty(&self.files()) && self.keeps_no_checkpoint()
    }
}

#[tokio::test]
async fn a_stopped_sandbox_that_docker_lost_leaves_nothing() {
    let node = Node::new().await;
    let id = id('a');
    node.remember(&id, false).await;
    let sandboxes = node.start().await;
    sandboxes.stop(id.as_str()).await.unwrap();
    assert_eq!(fs::read_to_string(node.root.path().join("calls")).unwrap(), "DEL\n");
    assert!(node.keeps_nothing());
    sandboxes.remove(id.as_str()).await.unwrap();
}

#[tokio::test]
async fn a_state_directory_that_cannot_be_written_holds_no_pod_back() {
    let node = Node::new().await;
    let id = id('a');
    node.remember(&id, false).await;
    let sandboxes = node.start().await;
    // Removing write permission would not stop root, so a file is created in place of the directory.
    let directory = node.root.path().join("state/sandboxes");
    fs::remove_dir_all(&directory).unwrap();
    fs::write(&directory, "").unwrap();
    sandboxes.remove(id.as_str()).await.unwrap();
    assert_eq!(fs::read_to_string(node.root.path().join("calls")).unwrap(), "DEL\n");
}

#[tokio::test]
async fn recovery_removes_files_of_unknown_pods() {
    let node = Node::new().await;
    node.remember(&id('a'), true).await;
    fs::create_dir_all(node.files().join(id('b').as_str())).unwrap();
    node.start().await.clean_up().await;
    assert!(node.keeps_nothing());
}

#[tokio::test]
async fn a_sandbox_under_another_name_is_still_the_earlier_one() {
    let node = Node::new().await;
    node.docker.world(|world| world.add_container("k8s_POD_web_ns_uid_0", json!({})));
    let sandboxes = node.start().await;
    let first = sandboxes.run(spec("web", true)).await.unwrap();
    assert_eq!(sandboxes.run(spec("web", true)).await.unwrap(), first);
}

#[tokio::test]
async fn a_plugin_that_hangs_does_not_delay_the_undo_of_a_pod_that_does_not_start() {
    let Some(node) = Node::with_oci_runtime().await else { return };
    let plugin = node.root.path().join("bin/quiet");
    let script = fs::read_to_string(&plugin).unwrap();
    fs::write(&plugin, format!("{script}[ $CNI_COMMAND = ADD ] && exec sleep 600\nexit 0\n"))
        .unwrap();
    let start = node.docker.hold("POST /containers/*/start");
    node.docker.world(|world| world.pid = std::process::id());
    let sandboxes = node.start().await;
    let run = tokio::time::timeout(LONG / 2, sandboxes.run(spec("hangs", false)));
    let (run, ()) = tokio::join!(run, node.adds_beside(&start));
    let error = run.expect("the undo waited for the plugin").unwrap_err();
    assert!(error.to_string().contains("did not join its network namespace"), "{error}");
    assert_eq!(node.calls(), ["ADD", "DEL"]);
    assert!(node.holds_no_namespace());
}

#[tokio::test]
async fn a_pod_whose_network_could_not_be_released_keeps_its_namespace_for_the_next_try() {
    let Some(node) = Node::with_oci_runtime().await else { return };
    let (plugin, busy) = (node.root.path().join("bin/quiet"), node.root.path().join("busy"));
    let script = fs::read_to_string(&plugin).unwrap();
    let refuse = format!("[ $CNI_COMMAND = DEL ] && [ -e {} ] && exit 1\nexit 0\n", busy.display());
    fs::write(&plugin, format!("{script}{refuse}")).unwrap();
    fs::write(&busy, "").unwrap();
    let fails = Fault::Status(500, "no start".to_owned());
    node.docker.inject(Rule::new("POST /containers/*/start", fails));
    let sandboxes = node.start().await;
    let error = sandboxes.run(spec("busy", false)).await.unwrap_err();
    let text = error.to_string();
    let (cause, cleanup) = text.split_once(" (and cleanup failed: ").expect(&text);
    assert!(cause.contains("no start") && !cleanup.contains("no start"), "{text}");
    let mut pins = fs::read_dir(node.root.path().join("run/netns")).unwrap();
    let pin = pins.next().expect("unpinned before its network was released").unwrap();
    fs::remove_file(&busy).unwrap();
    sandboxes.remove(pin.file_name().to_str().unwrap()).await.unwrap();
    assert!(node.holds_no_namespace());
    assert!(is_empty(&node.root.path().join("state/sandboxes")));
}

#[tokio::test]
async fn plugins_wait_for_the_start_of_a_pod_with_network_settings() {
    let Some(node) = Node::with_oci_runtime().await else { return };
    let fails = Fault::Status(500, "no start".to_owned());
    node.docker.inject(Rule::new("POST /containers/*/start", fails));
    let mut spec = spec("settings", false);
    spec.sysctls.insert("net.ipv4.conf.all.rp_filter".to_owned(), "2".to_owned());
    node.start().await.run(spec).await.unwrap_err();
    assert_eq!(node.calls(), ["DEL"]);
    assert!(node.holds_no_namespace());
}

/// In the engine, another program has the name of dockbridge's runtime, and ignores the pod's namespace.
/// dockbridge notices the wrong namespace after the start, when the CNI plugins have already been called.
#[tokio::test]
async fn plugins_work_beside_the_start_and_a_pause_in_another_namespace_is_refused() {
    let Some(node) = Node::with_oci_runtime().await else { return };
    let start = node.docker.hold("POST /containers/*/start");
    node.docker.world(|world| world.pid = std::process::id());
    let sandboxes = node.start().await;
    let (run, ()) = tokio::join!(sandboxes.run(spec("astray", false)), node.adds_beside(&start));
    let error = run.unwrap_err();
    assert!(error.to_string().contains("did not join its network namespace"), "{error}");
    assert_eq!(node.calls(), ["ADD", "DEL"]);
    assert!(node.holds_no_namespace());
    assert!(node.docker.world(|world| world.containers.is_empty()));
}

/// The inspect after the start has shown the pause container running, but its process has ended before
/// dockbridge looks at the namespace.
#[tokio::test]
async fn a_pause_that_ends_while_it_is_inspected_did_not_join_another_namespace() {
    let Some(node) = Node::with_oci_runtime().await else { return };
    // No process has this pid, like the pid of a process that has ended.
    node.docker.world(|world| world.pid = i32::MAX.cast_unsigned());
    let sandboxes = node.start().await;
    let seen = CancellationToken::new();
    let inspect = "GET /containers/*/json";
    let held = Fault::HeldAnswer(seen.clone());
    node.docker.inject(Rule::new(inspect, held).after(1).times(1));
    let ends = async {
        eventually(|| node.docker.count(inspect) == 2).await;
        node.end_pause();
        seen.cancel();
    };
    let (run, ()) = tokio::join!(sandboxes.run(spec("dies", false)), ends);
    let error = run.unwrap_err().to_string();
    assert!(error.contains("ended"), "{error}");
    assert!(node.holds_no_namespace());
    assert!(node.docker.world(|world| world.containers.is_empty()));
}

#[tokio::test]
async fn a_pause_that_ends_before_its_start_is_answered_leaves_nothing() {
    for host_network in [true, false] {
        let Some(node) = Node::with_oci_runtime().await else { return };
        let sandboxes = node.start().await;
        let late = Fault::LateAnswer(Duration::from_millis(200));
        node.docker.inject(Rule::new("POST /containers/*/start", late));
        let ends = async {
            let runs = || node.docker.world(|world| world.containers.iter().any(|it| it.pid != 0));
            eventually(runs).await;
            node.end_pause();
        };
        let (run, ()) = tokio::join!(sandboxes.run(spec("dies", host_network)), ends);
        let error = run.unwrap_err().to_string();
        assert!(error.contains("ended"), "{error}");
        assert!(node.keeps_no_checkpoint());
        assert!(node.docker.world(|world| world.containers.is_empty()));
    }
}

/// The pod's checkpoint file cannot be written, as on a full disk. Removing write permission would not stop
/// root, so a file is created in place of the directory.
#[tokio::test]
async fn a_pod_whose_checkpoint_cannot_be_written_leaves_nothing() {
    let Some(node) = Node::with_oci_runtime().await else { return };
    let sandboxes = node.start().await;
    let directory = node.root.path().join("state/sandboxes");
    fs::remove_dir_all(&directory).unwrap();
    fs::write(&directory, "").unwrap();
    let error = sandboxes.run(spec("full", false)).await.unwrap_err().to_string();
    assert!(!error.contains("cleanup failed"), "{error}");
    assert_eq!(node.calls(), ["DEL"], "no plugin runs before the checkpoint is written");
    assert!(node.holds_no_namespace());
    assert!(node.docker.world(|world| world.containers.is_empty()));
}

/// A pod also leaves nothing if its checkpoint file cannot be written the last time, after the CNI plugins
/// have connected the pod.
#[tokio::test]
async fn a_pod_whose_last_checkpoint_cannot_be_written_leaves_nothing() {
    let Some(node) = Node::with_oci_runtime().await else { return };
    let directory = node.root.path().join("state/sandboxes");
    let plugin = node.root.path().join("bin/quiet");
    let script = fs::read_to_string(&plugin).unwrap();
    let spoil = format!("[ $CNI_COMMAND = ADD ] && rm -r {0} && touch {0}", directory.display());
    fs::write(&plugin, format!("{script}{spoil}\nexit 0\n")).unwrap();
    let start = node.docker.hold("POST /containers/*/start");
    let sandboxes = node.start().await;
    let (run, mut pause) = tokio::join!(sandboxes.run(spec("full", false)), async {
        let pause = node.joins().await;
        node.adds_beside(&start).await;
        pause
    });
    let error = run.unwrap_err().to_string();
    pause.kill().unwrap();
    pause.wait().unwrap();
    assert!(error.contains("cannot write") && !error.contains("cleanup failed"), "{error}");
    assert_eq!(node.calls(), ["ADD", "DEL"]);
    assert!(node.holds_no_namespace());
    assert!(node.docker.world(|world| world.containers.is_empty()));
}

/// If kubelet stops a pod while a CNI plugin of its start hangs, the stop waits until the start has been
/// undone, and then finds no pod.
#[tokio::test]
async fn a_stop_during_a_start_that_hangs_in_a_plugin_leaves_nothing() {
    let Some(node) = Node::with_oci_runtime().await else { return };
    let plugin = node.root.path().join("bin/quiet");
    let script = fs::read_to_string(&plugin).unwrap();
    fs::write(&plugin, format!("{script}[ $CNI_COMMAND = ADD ] && exec sleep 600\nexit 0\n"))
        .unwrap();
    let start = node.docker.hold("POST /containers/*/start");
    let sandboxes = node.start().await;
    // The caller of RunPodSandbox disconnects.
    tokio::select! {
        run = sandboxes.run(spec("hangs", false)) => panic!("{run:?}"),
        () = node.adds_beside(&start) => {}
    }
    let id = node.docker.world(|world| world.containers[0].id.clone());
    let stop = tokio::time::timeout(LONG / 2, sandboxes.stop(&id));
    stop.await.expect("the stop waited for the plugin").unwrap();
    assert_eq!(node.calls(), ["ADD", "DEL"]);
    assert!(node.holds_no_namespace());
    assert!(node.keeps_no_checkpoint());
    sandboxes.remove(&id).await.unwrap();
    assert!(node.docker.world(|world| world.containers.is_empty()));
}

#[tokio::test]
async fn a_namespace_made_for_a_pod_that_docker_lost_is_released() {
    let Some(node) = Node::with_oci_runtime().await else { return };
    let sandboxes = node.start().await;
    let id = id('c');
    let edits = EditsDirectory::new(node.root.path().join("edits"));
    let engine = node.docker.world(|world| world.info["ID"].as_str().unwrap().to_owned());
    edits.write(id.as_str(), &OciEdits { engine, ..OciEdits::default() }).unwrap();
    netns::make(&node.root.path().join("run/netns").join(id.as_str())).unwrap();
    assert!(!node.holds_no_namespace());
    sandboxes.sweep_edits().await;
    assert!(node.holds_no_namespace());
}

fn spec(name: &str, host_network: bool) -> SandboxSpec {
    let metadata = json!({ "name": name, "namespace": "ns", "uid": "uid", "attempt": 0 });
    let namespaces = json!({ "host_network": host_network });
    serde_json::from_value(json!({ "metadata": metadata, "namespaces": namespaces })).unwrap()
}

fn id(digit: char) -> SandboxId {
    SandboxId::try_from(digit.to_string().repeat(64)).unwrap()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

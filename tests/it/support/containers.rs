//! Runs dockbridge's container calls with a fake engine, without the CRI socket and the pod calls.

use std::{path::Path, sync::Arc};

use dockbridge::{
    checkpoint::directory::Checkpoints,
    concurrency::{keyed_locks::KeyedLocks, named::Named},
    config::live::LiveSettings,
    container::{
        limits::service::Limits, node::Node, oci_runtime_files::OciRuntimeFiles,
        pod_files::PodFilesRoot, saved_changes::SavedChanges, service::Containers,
    },
    engine::client::{Engine, Timeouts},
    host::cgroup::Cgroups,
    image_files::service::ImageFiles,
    logs::service::Logs,
    model::container::ContainerLogFormat,
    oci_runtime::directory::EditsDirectory,
    store::{handle::Store, hooks::NoHooks, oom::OomDetector, settings::StoreSettings},
};
use tokio_util::task::TaskTracker;

use super::{default_settings, fake_dockerd::server::FakeDockerd};

/// The container calls and the parts that they use.
pub(crate) struct Verbs {
    pub(crate) containers: Containers,
    pub(crate) limits: Limits,
    pub(crate) node: Arc<Node>,
}

impl Verbs {
    /// The container calls, as after a start of dockbridge, with a state directory and a directory in place of `/proc`.
    pub(crate) async fn start(docker: &FakeDockerd, state: &Path, proc: &Path) -> Self {
        let tracker = TaskTracker::new();
        let engine = Engine::new(docker.socket().to_owned(), Timeouts::default());
        let store = Store::start(
            engine.clone(),
            Vec::new(),
            StoreSettings::default(),
            NoHooks,
            OomDetector::default(),
        );
        store.complete().await.unwrap();
        let format = ContainerLogFormat::Docker;
        let node = Arc::new(Node {
            logs: Logs::start(format, state.join("logs")).await,
            image_files: ImageFiles::new(engine.clone(), store.clone(), state, &tracker),
            live: LiveSettings::new(default_settings()),
            cgroups: Cgroups::from_proc(proc),
            oci_runtime_files: OciRuntimeFiles::new(
                EditsDirectory::new(state.join("edits")),
                state,
                state,
            ),
            nri: dockbridge::nri::service::Nri::default(),
            saved_changes: SavedChanges::load(Checkpoints::open(state).unwrap()).await,
            locks: KeyedLocks::default(),
            cancellations: Named::default(),
            pod_files: PodFilesRoot::new(state.join("pods")),
            oom_floor: Default::default(),
            engine,
            store,
        });
        let limits = Limits::new(&node, &tracker);
        Self { containers: Containers::new(&node, &limits, &tracker), limits, node }
    }
}

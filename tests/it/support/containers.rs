//! Container verbs over a fake engine, with nothing else of the server around them.

use std::path::Path;

use dockbridge::{
    checkpoint::directory::Checkpoints,
    concurrency::keyed_locks::KeyedLocks,
    config::live::LiveSettings,
    container::{
        oci_runtime_files::OciRuntimeFiles,
        saved_changes::SavedChanges,
        service::{ContainerDependencies, Containers},
    },
    engine::client::{Engine, Timeouts},
    host::cgroup::Cgroups,
    image_files::service::ImageFiles,
    logs::service::Logs,
    model::container::ContainerLogFormat,
    oci_runtime::directory::EditsDirectory,
    store::{handle::Store, hooks::StoreHooks, oom::OomDetector, settings::StoreSettings},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::fake_dockerd::server::FakeDockerd;

/// The verbs and what they are made of.
pub(crate) struct Verbs {
    pub(crate) containers: Containers,
    pub(crate) store: Store,
    pub(crate) image_files: ImageFiles,
}

impl Verbs {
    /// Of a process that starts now, with its directory and its kernel's `proc`.
    pub(crate) async fn start(docker: &FakeDockerd, state: &Path, proc: &Path) -> Self {
        let tracker = TaskTracker::new();
        let engine = Engine::new(docker.socket().to_owned(), Timeouts::default());
        let store = Store::start(
            engine.clone(),
            Vec::new(),
            StoreSettings::default(),
            StoreHooks::none(),
            OomDetector::default(),
        );
        store.complete().await.unwrap();
        let image_files = ImageFiles::new(engine.clone(), store.clone(), state, &tracker);
        let format = ContainerLogFormat::Docker;
        let dependencies = ContainerDependencies {
            logs: Logs::start(format, state.join("logs"), engine.clone()).await,
            image_files: image_files.clone(),
            live: LiveSettings::default(),
            cgroups: Cgroups::from_proc(proc),
            oci_runtime_files: OciRuntimeFiles::new(
                EditsDirectory::new(state.join("edits")),
                state,
            ),
            nri: dockbridge::nri::service::Nri::default(),
            saved_changes: SavedChanges::load(Checkpoints::open(state).unwrap()).await,
            engine,
            store: store.clone(),
        };
        let work = (&tracker, &CancellationToken::new());
        let containers = Containers::new(dependencies, KeyedLocks::default(), state, work);
        Self { containers, store, image_files }
    }
}

//! All services, built bottom-up from the settings.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt as _};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    environment::Deadlines,
    error::AppError,
    ownership::{EngineLocker, EngineOwnership},
};
use crate::{
    checkpoint::{
        directory::Checkpoints,
        record::{PodCidrs, SandboxCheckpoint},
    },
    concurrency::{keyed_locks::KeyedLocks, named::Named},
    config::{live::LiveSettings, settings::Settings},
    container::{
        dump::service::Dumps, exec_sync::Commands, limits::service::Limits, node::Node,
        oci_runtime_files::OciRuntimeFiles, pod_files::PodFilesRoot, saved_changes::SavedChanges,
        service::Containers,
    },
    engine::client::{Engine, Timeouts},
    host::{cgroup::Cgroups, netns::PinDirectories},
    image::{kubelet_images::KubeletImages, service::Images},
    image_files::service::ImageFiles,
    logs::service::Logs,
    model::{
        engine::EngineInfo,
        network::NetworkMode,
        record::{ContainerRecord, SandboxRecord},
    },
    network::service::Network,
    nri::service::Nri,
    oci_runtime::directory::EditsDirectory,
    rpc::{events::Events, image::ImageRpc, metrics::RpcMetrics, runtime::RuntimeRpc},
    sandbox::{
        adopt::Adopter,
        service::{SandboxDependencies, Sandboxes},
    },
    stats::service::Stats,
    store::{handle::Store, hooks::StoreHooks, oom::OomDetector},
    streaming::service::Streaming,
};

/// What the CRI server, the admin server and the cleanup call.
pub(super) struct Services {
    pub(super) sandboxes: Sandboxes,
    pub(super) runtime: RuntimeRpc,
    pub(super) image: ImageRpc,
    pub(super) node: Arc<Node>,
    pub(super) limits: Limits,
    pub(super) commands: Commands,
}

pub(super) async fn build(
    live: &LiveSettings,
    deadlines: Deadlines,
    work: (&TaskTracker, &CancellationToken),
    (engines, streaming): (&EngineOwnership, SocketAddr),
) -> Result<Services, AppError> {
    let (settings, tracker) = (&*live.current(), work.0);
    let checkpoints = Checkpoints::open(&settings.state_dir)?;
    let loaded = checkpoints.load().await;
    let timeouts = Timeouts { short: settings.request_timeout, ..deadlines.engine };
    let engine = Engine::new(settings.docker.clone(), timeouts);
    let positions = settings.state_dir.join("logs");
    let logs = Logs::start(settings.container_log_format, positions).await;
    let network = start_network(live, deadlines.plugins, &checkpoints).await;
    let known = loaded.sandboxes.iter().map(|checkpoint| checkpoint.id.clone()).collect();
    let pins = PinDirectories::of(&settings.run_dir);
    let (owned, saved) = (network.clone(), checkpoints.clone());
    let adopter = Adopter::new(engine.clone(), owned, saved, known, pins.clone());
    let hooks = Hooks { logs: logs.clone(), adopter: adopter.clone(), locker: engines.locker() };
    let cgroups = Cgroups::default();
    let oom = OomDetector::load(cgroups.clone(), checkpoints.clone()).await;
    let store = Store::start(engine.clone(), loaded.sandboxes, deadlines.store, hooks, oom);
    let images = Images::new(
        engine.clone(),
        store.clone(),
        live.clone(),
        KubeletImages::load(checkpoints.clone()).await,
        tracker,
    );
    let node = node(live, (&engine, &store, &logs), (&cgroups, &checkpoints), work).await;
    let limits = Limits::new(&node, tracker);
    let containers = Containers::new(&node, &limits, tracker);
    let commands = Commands::new(&node, &settings.state_dir, work);
    let dumps = Dumps::new(&node, &settings.state_dir, PROGRAM.into(), tracker);
    dumps.adopt_leftovers().await;
    let (nri, hooks) = (node.nri.clone(), containers.clone());
    tracker.spawn(async move { nri.serve(hooks).await });
    let streaming = Streaming::new(engine.clone(), store.clone(), streaming);
    let dependencies = SandboxDependencies {
        node: node.clone(),
        checkpoints: checkpoints.clone(),
        network: network.clone(),
        images: images.clone(),
        limits: limits.clone(),
        containers: containers.clone(),
    };
    let sandboxes = Sandboxes::new(dependencies, settings.network, (pins, adopter), tracker);
    let config = Arc::new(verbose_config(settings));
    let stats = Stats::start(store.clone(), cgroups);
    let (shutdown, metrics) = (work.1.clone(), RpcMetrics::with_engine(engine.metrics()));
    let events = Events::new(&node, limits.clone(), shutdown.clone());
    let image = ImageRpc { images, stats: stats.clone(), store: store.clone(), shutdown };
    let runtime = RuntimeRpc {
        sandboxes: sandboxes.clone(),
        containers,
        limits: limits.clone(),
        commands: commands.clone(),
        dumps,
        nri: node.nri.clone(),
        streaming,
        stats,
        store,
        network,
        config,
        live: live.clone(),
        sandbox_image: sandbox_image(settings).into(),
        checkpoints,
        shutdown: work.1.clone(),
        events,
        metrics,
        encoded: Arc::default(),
    };
    Ok(Services { sandboxes, runtime, image, node, limits, commands })
}

async fn node(
    live: &LiveSettings,
    (engine, store, logs): (&Engine, &Store, &Logs),
    (cgroups, checkpoints): (&Cgroups, &Checkpoints),
    work: (&TaskTracker, &CancellationToken),
) -> Arc<Node> {
    let settings = &*live.current();
    Arc::new(Node {
        engine: engine.clone(),
        store: store.clone(),
        logs: logs.clone(),
        image_files: ImageFiles::new(engine.clone(), store.clone(), &settings.run_dir, work.0),
        live: live.clone(),
        cgroups: cgroups.clone(),
        locks: KeyedLocks::default(),
        cancellations: Named::default(),
        pod_files: PodFilesRoot::new(settings.state_dir.join("pods")),
        oci_runtime_files: OciRuntimeFiles::new(
            EditsDirectory::default(),
            &settings.run_dir,
            &settings.state_dir,
        ),
        saved_changes: SavedChanges::load(checkpoints.clone()).await,
        nri: plugins(settings, store, work),
        oom_floor: Default::default(),
    })
}

/// The NRI plugins; off unless the setting `nri` is on. Plugins connect later, once [`Nri::serve`] runs.
fn plugins(settings: &Settings, store: &Store, work: (&TaskTracker, &CancellationToken)) -> Nri {
    let pins = PinDirectories::of(&settings.run_dir);
    if !settings.nri.enabled {
        return Nri::default();
    }
    Nri::new(settings.nri.clone(), store.clone(), pins, work)
}

/// Hooks of the store: the store shows the end of a container once its log is complete or late, shows the
/// first list's pods once dockbridge has tried to adopt them, and uses an engine once it is locked.
#[derive(Debug)]
struct Hooks {
    logs: Logs,
    adopter: Adopter,
    locker: EngineLocker,
}

impl StoreHooks for Hooks {
    fn before_shown(&self, record: &ContainerRecord) -> BoxFuture<'static, ()> {
        self.logs.observed(record).boxed()
    }

    fn gone(&self, id: &str) {
        self.logs.gone(id);
    }

    fn first_list(&self, listed: Vec<SandboxRecord>) -> BoxFuture<'static, Vec<SandboxCheckpoint>> {
        let adopter = self.adopter.clone();
        async move { adopter.adopt(listed).await }.boxed()
    }

    fn engine(&self, engine: &EngineInfo) -> BoxFuture<'static, ()> {
        self.locker.clone().lock(engine.clone()).boxed()
    }
}

async fn start_network(
    live: &LiveSettings,
    plugin_timeout: Duration,
    checkpoints: &Checkpoints,
) -> Network {
    let network = Network::start(live.clone(), plugin_timeout);
    // kubelet's last pod CIDRs survive a restart. Until kubelet has sent pod CIDRs, the setting `--pod-cidr` applies.
    let PodCidrs { pod_cidrs } = checkpoints.load_file().await;
    if !pod_cidrs.is_empty() {
        network.set_pod_cidrs(pod_cidrs);
    }
    network
}

/// Some settings that no reload changes, as verbose Status shows them; kubeadm reads `sandboxImage`.
fn verbose_config(settings: &Settings) -> serde_json::Value {
    serde_json::json!({
        "sandboxImage": sandbox_image(settings),
        "docker": settings.docker,
        "stateDir": settings.state_dir,
        "runDir": settings.run_dir,
        "network": match settings.network {
            NetworkMode::Docker => "docker",
            NetworkMode::Cni | NetworkMode::Host => "cni",
        },
    })
}

fn sandbox_image(settings: &Settings) -> &str {
    settings.sandbox_image.as_deref().unwrap_or_else(|| crate::pause::archive::reference())
}

/// The running dockbridge program, even if its file was replaced.
const PROGRAM: &str = "/proc/self/exe";

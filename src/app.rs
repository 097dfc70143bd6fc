//! Wiring: settings in, rooms bottom-up, serve, drain.

mod cleanup;
mod delivery;
mod own;
mod watch;
mod window;

use std::{
    convert::Infallible, future::Future, io, net::SocketAddr, path::PathBuf, sync::Arc,
    time::Duration,
};

use thiserror::Error;
use tokio::task::spawn_blocking;
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};
use tracing::{info, warn};

use self::{
    cleanup::{recover, sweep, sweep_peeks_later},
    delivery::Delivery,
    own::{OwnEngines, own_state_dir},
    watch::Watch,
    window::window,
};
use crate::{
    admin::server::{Listeners, MetricsAddressError},
    cdi::registry::Registry,
    checkpoint::{directory::Checkpoints, error::CheckpointError},
    concurrency::keyed_locks::KeyedLocks,
    config::settings::Settings,
    container::{
        limits::resized::ResizedLimits,
        room::{Containers, Hands},
    },
    engine::{
        client::{Engine, Timeouts},
        lock::EngineLocks,
    },
    host::{
        capability::Capability,
        cgroup::Cgroups,
        error::HostError,
        file, heap,
        lock::{Holder, LockError},
    },
    image::{images::Images, pulled::Pulled, settings::ImageSettings},
    logs::service::Logs,
    model::{network::NetworkMode, record::ContainerRecord},
    network::service::{Network, NetworkSettings},
    rootfs::room::Rootfs,
    rpc::{
        events::Events,
        image::ImageRpc,
        listener::{ListenError, Socket},
        metrics::RpcMetrics,
        runtime::RuntimeRpc,
        server::{Silence, serve},
    },
    sandbox::{
        adopt::Adopter,
        room::{SandboxRooms, Sandboxes},
    },
    stats::service::Stats,
    store::{handle::Store, hooks::StoreHooks, oom::OomDetector, settings::StoreSettings},
    streaming::{error::BindError, server::Endpoint, service::Streaming},
    telemetry::{log::LevelControl, otlp::Collector, systemd::Systemd},
};

/// dockbridge could not start, or could not go on.
#[derive(Debug, Error)]
pub enum AppError {
    /// Pods could not be connected: a namespace is kept by a mount, and plugins change networks.
    #[error(
        "dockbridge lacks {missing}: no pod could be connected (--network cni), and port-forward and \
         image volumes would fail. Run it as root in the host's namespaces, and look for \
         CapabilityBoundingSet= in its unit (dockbridge check tells what else is missing)"
    )]
    Powerless {
        /// What is missing, by name.
        missing: String,
    },
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] CheckpointError),
    /// Another dockbridge has the state directory, or we may not write there.
    #[error(
        "cannot use the state directory {}: it must be writable and not in use by another dockbridge \
         (run as root, stop the other, or choose another --state-dir and another engine)",
        state_dir.display()
    )]
    Taken {
        /// The directory.
        state_dir: PathBuf,
        /// Who has it.
        source: LockError,
    },
    /// Another dockbridge has the engine.
    #[error(
        "the Docker Engine {id} at {} is served by another dockbridge, {holder}: stop it, or point \
         one of the two at another engine (--docker)",
        docker.display()
    )]
    Served {
        /// The engine's id.
        id: String,
        /// Where we reach it.
        docker: PathBuf,
        /// The other server.
        holder: Holder,
    },
    /// Whether another dockbridge has the engine cannot be told, nor could one tell of us.
    #[error(
        "the Docker Engine {id} at {} may be served by another dockbridge: cannot take its lock \
         (run as root)",
        docker.display()
    )]
    NoEngineLock {
        /// The engine's id.
        id: String,
        /// Where we reach it.
        docker: PathBuf,
        /// Why not.
        source: HostError,
    },
    /// Nothing can be kept there: no pod could start.
    #[error(
        "cannot use the run directory {} (run as root, or choose another --run-dir)",
        run_dir.display()
    )]
    Run {
        /// The directory.
        run_dir: PathBuf,
        /// Why.
        source: HostError,
    },
    /// The CRI socket cannot be used.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The address of exec, attach and port-forward cannot be used.
    #[error(transparent)]
    Streaming(#[from] BindError),
    /// Nobody could tell systemd that we live.
    #[error("cannot start the thread that watches the socket")]
    Watch(#[source] io::Error),
    /// The address of metrics and health cannot be used.
    #[error(transparent)]
    Metrics(#[from] MetricsAddressError),
    /// The task that knows what is true has died: a bug. A fresh start knows again.
    #[error("internal error: the store stopped; restart dockbridge and report its log")]
    Blind,
    /// Serving ended by itself.
    #[error("the CRI server failed")]
    Serve(#[from] tonic::transport::Error),
}

/// Serves the CRI by `settings` until `stop` resolves, then lets what is under way finish.
///
/// Docker need not be there: it is awaited while the socket already answers.
///
/// # Errors
/// See [`AppError`].
pub async fn run(
    settings: Settings,
    surroundings: Surroundings,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), AppError> {
    may_connect(&surroundings.missing, settings.network)?;
    run_within(settings, surroundings, Deadlines::default(), stop).await
}

/// What the process was started in: others who look at it, and others like it.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// How much is logged.
    pub level: LevelControl,
    /// Who hears that we are ready, alive, or about to stop.
    pub systemd: Systemd,
    /// Takes spans to whoever collects them.
    pub collector: Option<Collector>,
    /// What keeps two servers from one engine.
    pub locks: EngineLocks,
    /// Rights that this process should have and has not.
    pub missing: Vec<Capability>,
}

/// How long the outside world may take, where no setting says so.
#[derive(Clone, Debug)]
pub struct Deadlines {
    /// Calls to the engine; of the short ones the setting decides.
    pub engine: Timeouts,
    /// The store's own looks at the engine.
    pub store: StoreSettings,
    /// All CNI plugins of one ADD or DEL together.
    pub plugins: Duration,
    /// How often it is looked for what containers that are gone have left.
    pub sweep_every: Duration,
    /// Callers who say nothing.
    pub callers: Silence,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            engine: Timeouts::default(),
            store: StoreSettings::default(),
            plugins: PLUGIN_DEADLINE,
            sweep_every: SWEEP_EVERY,
            callers: Silence::default(),
        }
    }
}

/// [`run`] with other deadlines, for those who cannot wait as long as a node can, and with whatever
/// rights there are.
///
/// # Errors
/// See [`AppError`].
pub async fn run_within(
    settings: Settings,
    surroundings: Surroundings,
    deadlines: Deadlines,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), AppError> {
    let Surroundings { level, systemd, collector, locks, .. } = surroundings;
    let delivery = Delivery::begin(collector);
    let _owned = own_state_dir(&settings).await?;
    let mut engines = OwnEngines::new(&settings, locks);
    let run_dir = &settings.run_dir;
    file::ensure_directory(run_dir, RUN_MODE)
        .map_err(|source| AppError::Run { run_dir: run_dir.clone(), source })?;
    let tracker = TaskTracker::new();
    let stopping = CancellationToken::new();
    let endpoint = Endpoint::bind(settings.streaming_addr)?;
    let listeners = Listeners::bind(&settings.run_dir, settings.metrics_addr).await?;
    let (work, every, callers) = ((&tracker, &stopping), deadlines.sweep_every, deadlines.callers);
    let rooms = build(&settings, deadlines, work, (&engines, endpoint.address())).await?;
    let window = window(&rooms, level);
    let mut admin = AbortOnDropHandle::new(tokio::spawn(listeners.serve(window)));
    let _recovering = AbortOnDropHandle::new(tokio::spawn(recover(
        rooms.sandboxes.clone(),
        (rooms.rootfs.clone(), rooms.containers.clone()),
        rooms.runtime.store.clone(),
        tracker.clone(),
    )));
    tokio::select! {
        listed = rooms.runtime.store.synced(FIRST_LIST_PATIENCE) => if listed.is_err() {
            warn!(
                "Docker has not listed its containers yet; answering UNAVAILABLE until it has"
            );
        },
        error = engines.refused() => return Err(error),
    }
    let (socket, listener) = Socket::bind(&settings.listen).await?;
    info!(
        listen = %settings.listen.display(),
        docker = %settings.docker.display(),
        streaming = %endpoint.address(),
        version = env!("CARGO_PKG_VERSION"),
        "dockbridge serves the container runtime interface"
    );
    let (store, logs) = (rooms.runtime.store.clone(), rooms.logs);
    let streams =
        endpoint.serve(rooms.runtime.streaming.clone(), tracker.clone(), stopping.clone());
    tracker.spawn(streams);
    let watch =
        Watch::begin(systemd, settings.listen.clone(), store.clone()).map_err(AppError::Watch)?;
    let told = stopping.clone();
    let serving = serve(listener, rooms.runtime, rooms.image, callers, async move {
        stop.await;
        watch.stop();
        told.cancel();
    });
    let served = tokio::select! {
        served = serving => served.map_err(AppError::from),
        () = store.ended() => Err(AppError::Blind),
        error = engines.refused() => Err(error),
        never = sweep(&store, &logs, (&rooms.rootfs, &rooms.containers, &rooms.sandboxes), every) => match never {},
        never = rooms.rootfs.guard() => match never {},
        never = sweep_peeks_later(&rooms.rootfs, &store) => match never {},
        never = give_memory_back() => match never {},
    };
    // Serving may have ended without being told to.
    stopping.cancel();
    drop(socket);
    tracker.close();
    if tokio::time::timeout(DRAIN_PATIENCE, tracker.wait()).await.is_err() {
        warn!(tasks = tracker.len(), "shutting down before all running operations have ended");
    }
    tokio::join!(rooms.sandboxes.sweep(), logs.close());
    admin.abort();
    // Its socket goes with it.
    let _ = (&mut admin).await;
    delivery.end().await;
    info!("dockbridge has stopped; pods keep running");
    served
}

/// Whether pods can be run at all. Where nothing needs to be connected it is enough to say what
/// will fail.
fn may_connect(missing: &[Capability], network: NetworkMode) -> Result<(), AppError> {
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.iter().map(|one| one.name()).collect::<Vec<_>>().join(" and ");
    if network == NetworkMode::Cni {
        return Err(AppError::Powerless { missing });
    }
    warn!(
        missing,
        "missing capabilities to mount or to enter namespaces: port-forward and image volumes will \
         fail, and pods with CNI cannot be taken over"
    );
    Ok(())
}

/// The rooms the edge speaks to.
struct Rooms {
    engine: Engine,
    sandboxes: Sandboxes,
    runtime: RuntimeRpc,
    image: ImageRpc,
    logs: Logs,
    rootfs: Rootfs,
    containers: Containers,
}

async fn build(
    settings: &Settings,
    deadlines: Deadlines,
    work: (&TaskTracker, &CancellationToken),
    (engines, streaming): (&OwnEngines, SocketAddr),
) -> Result<Rooms, AppError> {
    let tracker = work.0;
    let checkpoints = Checkpoints::open(&settings.state_dir)?;
    let loaded = checkpoints.load().await;
    let patience = Timeouts { short: settings.request_timeout, ..deadlines.engine };
    let engine = Engine::new(settings.docker.clone(), patience);
    let logs =
        Logs::start(settings.container_log_format, settings.state_dir.join("logs"), engine.clone());
    let network = start_network(settings, deadlines.plugins, &checkpoints).await;
    let known = loaded.sandboxes.iter().map(|checkpoint| checkpoint.id.clone()).collect();
    let adopter = Adopter::new(
        engine.clone(),
        network.clone(),
        checkpoints.clone(),
        known,
        &settings.run_dir,
    );
    let hooks = engines.guard(store_hooks(&logs, &adopter));
    let cgroups = Cgroups::default();
    let oom = OomDetector::load(cgroups.clone(), checkpoints.clone()).await;
    let store = Store::start(engine.clone(), loaded.sandboxes, deadlines.store, hooks, oom);
    let images = Images::new(
        engine.clone(),
        store.clone(),
        image_settings(settings),
        Pulled::load(checkpoints.clone()).await,
        tracker,
    );
    let locks = KeyedLocks::default();
    let rootfs = Rootfs::new(engine.clone(), store.clone(), &settings.run_dir, tracker);
    let hands = Hands {
        engine: engine.clone(),
        store: store.clone(),
        logs: logs.clone(),
        rootfs: rootfs.clone(),
        cdi: Registry::new(settings.cdi_spec_dirs.clone()),
        cgroups: cgroups.clone(),
        resized: ResizedLimits::load(checkpoints.clone()).await,
    };
    let containers = Containers::new(hands, locks.clone(), &settings.state_dir, work);
    let streaming = Streaming::new(engine.clone(), store.clone(), streaming);
    let rooms = SandboxRooms {
        engine: engine.clone(),
        store: store.clone(),
        checkpoints: checkpoints.clone(),
        network: network.clone(),
        images: images.clone(),
        containers: containers.clone(),
    };
    let place = (&*settings.run_dir, adopter);
    let sandboxes = Sandboxes::new(rooms, locks, settings.network, place, tracker);
    let config = Arc::new(shown(settings));
    let stats = Stats::start(store.clone(), cgroups);
    let (leaving, metrics) = (work.1.clone(), RpcMetrics::beside(engine.metrics()));
    let events =
        Events::new(store.clone(), containers.clone(), leaving.clone(), metrics.events.clone());
    let image = ImageRpc { images, stats: stats.clone(), store: store.clone(), leaving };
    let runtime = RuntimeRpc {
        sandboxes: sandboxes.clone(),
        containers: containers.clone(),
        streaming,
        stats,
        store,
        network,
        config,
        sandbox_image: sandbox_image(settings).into(),
        checkpoints,
        leaving: work.1.clone(),
        events,
        metrics,
        kept: Arc::default(),
    };
    Ok(Rooms { engine, sandboxes, runtime, image, logs, rootfs, containers })
}

fn image_settings(settings: &Settings) -> ImageSettings {
    ImageSettings {
        sandbox_image: settings.sandbox_image.clone(),
        pull_progress_deadline: settings.pull_progress_deadline,
        registry_config: settings.registry_config.clone(),
        pins: settings.pins.clone(),
        collect: settings.collect,
    }
}

/// The end of a container is shown when its log is complete, a pod when it is known how it is
/// connected.
fn store_hooks(logs: &Logs, adopter: &Adopter) -> StoreHooks {
    let (watching, leaving, adopter) = (logs.clone(), logs.clone(), adopter.clone());
    StoreHooks::new(move |record: &ContainerRecord| watching.observed(record))
        .on_gone(move |id| leaving.gone(id))
        .on_first_list(move |found| {
            let adopter = adopter.clone();
            async move { adopter.adopt(found).await }
        })
}

/// Lists and statistics of a full node are large, and leave holes in what we have of memory.
async fn give_memory_back() -> Infallible {
    loop {
        tokio::time::sleep(GIVE_BACK_EVERY).await;
        // It only fails when it panics.
        let _ = spawn_blocking(heap::give_back).await;
    }
}

async fn start_network(
    settings: &Settings,
    plugin_timeout: Duration,
    checkpoints: &Checkpoints,
) -> Network {
    let network = Network::start(NetworkSettings {
        mode: settings.network,
        conf_dir: settings.cni.conf_dir.clone(),
        bin_dirs: settings.cni.bin_dirs.clone(),
        cache_dir: settings.cni.cache_dir.clone(),
        plugin_timeout,
    });
    // What kubelet told us last outlives a restart; until it has spoken, the flag counts.
    let told = checkpoints.load_pod_cidrs().await;
    network.set_pod_cidrs(told.unwrap_or_else(|| settings.pod_cidrs.clone()));
    network
}

/// The settings as verbose Status shows them; kubeadm reads `sandboxImage`.
fn shown(settings: &Settings) -> serde_json::Value {
    serde_json::json!({
        "sandboxImage": sandbox_image(settings),
        "docker": settings.docker,
        "stateDir": settings.state_dir,
        "runDir": settings.run_dir,
        "network": match settings.network {
            NetworkMode::Docker => "docker",
            NetworkMode::Cni | NetworkMode::Host => "cni",
        },
        "cniConfDir": settings.cni.conf_dir,
        "cniBinDirs": settings.cni.bin_dirs,
    })
}

fn sandbox_image(settings: &Settings) -> &str {
    settings.sandbox_image.as_deref().unwrap_or_else(|| crate::pause::archive::reference())
}

/// How long the socket waits for Docker's first list, so that the first answer is no refusal.
const FIRST_LIST_PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked for what containers that are gone have left.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// How often memory that is not in use is given back.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(30);
/// Others may connect to a socket there that permits it.
const RUN_MODE: u32 = 0o755;
/// How long all CNI plugins of one pod may take together; longer than any that works.
const PLUGIN_DEADLINE: Duration = Duration::from_secs(220);
/// How long work that outlived its callers may take at the end.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;

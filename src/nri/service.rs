//! The NRI plugins of this node, and the state that all events share.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use futures_util::future::BoxFuture;
use tokio::{
    sync::{Mutex, MutexGuard},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    creation::{Creation, Creations, Identity, Reveals},
    lifecycle::Lifecycles,
    metrics::NriMetrics,
    plugin::{EventSubject, Plugin},
};
use crate::{
    config::settings::NriSettings,
    error::{Failure, Kind},
    host::netns::PinDirectories,
    model::{
        record::{ContainerRecord, SandboxRecord},
        resources::{PodResources, Resources},
    },
    store::{handle::Store, snapshot::Snapshot},
    translate::render::nri::{ContainerView, PodView, container, pod},
};

/// The NRI plugins of this node; `None` if NRI is off. Clones share all state.
#[derive(Clone, Debug, Default)]
pub struct Nri(pub(super) Option<Arc<Shared>>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: NriSettings,
    pub(super) store: Store,
    pub(super) hooks: OnceLock<Box<dyn NriHooks>>,
    pub(super) metrics: NriMetrics,
    pub(super) tracker: TaskTracker,
    /// Cancelled when dockbridge begins to stop.
    pub(super) shutdown: CancellationToken,
    pub(super) creations: Creations,
    pins: PinDirectories,
    plugins: Mutex<Plugins>,
    /// The task of the latest call of [`Shared::carry_out`], for which the next task waits.
    pub(super) last_updates: parking_lot::Mutex<Option<JoinHandle<()>>>,
    /// Held while one plugin synchronises, so that an event waits for the synchronisation of at most one plugin.
    pub(super) synchronizing: Mutex<()>,
}

/// Lets plugins change and kill containers, and read limits. The higher module `container` implements this trait.
pub trait NriHooks: fmt::Debug + Send + Sync {
    /// Changes the limits of a container. Returns the reason if the change fails.
    fn update(&self, id: String, limits: Resources) -> BoxFuture<'_, Result<(), String>>;

    /// Kills a container. [`super::follower`] reports the container's end to plugins.
    fn kill(&self, id: String) -> BoxFuture<'_, Result<(), String>>;

    /// The limits that were last requested for a container.
    fn limits(&self, container: &ContainerRecord) -> Resources;

    /// The limits that kubelet last sent for a pod.
    fn pod_limits(&self, pod: &SandboxRecord) -> PodResources;
}

/// The state that the lock of [`LockedPlugins`] protects.
#[derive(Debug, Default)]
pub(super) struct Plugins {
    pub(super) connected: Vec<Arc<Plugin>>,
    pub(super) pods: Lifecycles<SandboxRecord>,
    pub(super) containers: Lifecycles<ContainerRecord>,
}

/// Holds the lock on the plugins, for example while dockbridge sends them one event.
#[derive(Debug)]
pub(super) struct LockedPlugins<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) plugins: MutexGuard<'a, Plugins>,
}

impl Drop for LockedPlugins<'_> {
    /// Removes disconnected plugins. If none is left, also forgets which pods and containers were reported to them.
    fn drop(&mut self) {
        self.plugins.connected.retain(|plugin| !plugin.connection.is_closed());
        let many = self.plugins.connected.len();
        self.shared.metrics.connected.set(i64::try_from(many).unwrap_or(i64::MAX));
        if many == 0 {
            self.shared.creations.set_asking(false);
            *self.plugins = Plugins::default();
        }
    }
}

impl Nri {
    /// Creates the service with these settings. Plugins can connect once [`Self::serve`] runs.
    pub fn new(
        settings: NriSettings,
        store: Store,
        pins: PinDirectories,
        work: (&TaskTracker, &CancellationToken),
    ) -> Self {
        Self(Some(Arc::new(Shared {
            settings,
            store,
            hooks: OnceLock::new(),
            metrics: NriMetrics::default(),
            tracker: work.0.clone(),
            shutdown: work.1.clone(),
            creations: Creations::default(),
            pins,
            plugins: Mutex::default(),
            last_updates: parking_lot::Mutex::default(),
            synchronizing: Mutex::default(),
        })))
    }

    /// Runs the installed plugins, and serves other plugins on a socket, until dockbridge stops.
    pub async fn serve(&self, hooks: impl NriHooks + 'static) {
        let Some(shared) = &self.0 else { return };
        // `set` fails only on a second call, and dockbridge calls `serve` once.
        let _ = shared.hooks.set(Box::new(hooks));
        shared.serve().await;
    }

    /// The metrics of NRI plugins.
    pub fn metrics(&self) -> NriMetrics {
        self.0.as_ref().map(|shared| shared.metrics.clone()).unwrap_or_default()
    }

    /// Records that a pod or container is being created. If dockbridge asks plugins, clients do not see the pod
    /// or container until the returned value is dropped. Fails if a required plugin is not connected.
    pub async fn begin(&self, identity: Identity) -> Result<Option<Creation>, Failure> {
        let Some(shared) = &self.0 else { return Ok(None) };
        self.check_required_plugins().await?;
        Ok(Some(shared.creations.begin(identity)))
    }

    pub(super) async fn check_required_plugins(&self) -> Result<(), Failure> {
        match &self.0 {
            Some(shared) if !shared.settings.required.is_empty() => {
                shared.lock_plugins().await.check_required_plugins()
            }
            _ => Ok(()),
        }
    }

    /// The snapshot for clients: without the new pods and containers that dockbridge hides until their creation ends.
    pub fn shown(&self, now: Arc<Snapshot>) -> Arc<Snapshot> {
        let Some(shared) = &self.0 else { return now };
        let creations = &shared.creations;
        if !creations.hide_anything() {
            return now;
        }
        now.without(|pod| creations.hides_pod(pod), |one| creations.hides_container(one))
    }

    /// Reports when the creation of a hidden pod or container ends.
    pub fn reveals(&self) -> Reveals {
        self.0.as_ref().map(|shared| shared.creations.reveals()).unwrap_or_default()
    }

    /// Whether dockbridge hides the pod from clients until the creation of the pod ends.
    pub fn hides_pod(&self, record: &SandboxRecord) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.creations.hides_pod(record))
    }
}

impl LockedPlugins<'_> {
    /// Fails unless all plugins that the administrator requires are connected.
    pub(super) fn check_required_plugins(&self) -> Result<(), Failure> {
        let is_there = |name: &&String| {
            self.plugins.connected.iter().any(|plugin| {
                !plugin.connection.is_closed()
                    && (plugin.name == **name || plugin.full_name() == **name)
            })
        };
        let missing: Vec<&str> = (self.shared.settings.required.iter())
            .filter(|name| !is_there(name))
            .map(String::as_str)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let text = format!("required NRI plugins are not connected: {}", missing.join(", "));
        Err(Failure::new(Kind::Unavailable, text))
    }
}

impl Shared {
    /// Locks the plugins. Waits while another event is being sent or a plugin is being synchronised.
    pub(super) async fn lock_plugins(self: &Arc<Self>) -> LockedPlugins<'_> {
        LockedPlugins { shared: self, plugins: self.plugins.lock().await }
    }

    /// Whether no plugin is connected. Returns false while the plugins are locked.
    pub(super) fn is_idle(&self) -> bool {
        self.plugins.try_lock().is_ok_and(|plugins| plugins.connected.is_empty())
    }

    pub(super) fn pod_subject(&self, record: &SandboxRecord) -> EventSubject {
        let now = self.store.snapshot();
        EventSubject { pod: Some(pod(&self.pod_view(&now, record))), container: None }
    }

    /// A container as plugins see it, with its pod if the store has the pod.
    pub(super) fn container_subject(&self, record: &ContainerRecord) -> EventSubject {
        let now = self.store.snapshot();
        let pod = now.sandbox(record.document.sandbox.as_str());
        EventSubject {
            pod: pod.map(|record| self::pod(&self.pod_view(&now, record))),
            container: Some(container(&self.container_view(&now, record))),
        }
    }

    pub(super) fn pod_view<'a>(&self, now: &'a Snapshot, record: &'a SandboxRecord) -> PodView<'a> {
        let limits = self.hooks.get().map(|hooks| hooks.pod_limits(record));
        let pin = self.pins.path(record.id.as_str());
        PodView {
            record,
            network_namespace: record.attachment.is_some().then_some(pin),
            resources: limits.unwrap_or_default(),
            engine: now.engine.as_deref(),
        }
    }

    pub(super) fn container_view<'a>(
        &self,
        now: &'a Snapshot,
        record: &'a ContainerRecord,
    ) -> ContainerView<'a> {
        let limits = self.hooks.get().map(|hooks| hooks.limits(record));
        ContainerView {
            record,
            resources: limits.unwrap_or_else(|| record.limits.clone()),
            pod: now.sandbox(record.document.sandbox.as_str()).map(|pod| &**pod),
            engine: now.engine.as_deref(),
        }
    }
}

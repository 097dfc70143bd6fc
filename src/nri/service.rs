//! The plugins of this node, and what all calls to them share.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use futures_util::FutureExt as _;
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    creation::{Creation, Creations, Identity, Reveals},
    error::NriError,
    hooks::NriHooks,
    lifecycle::Lifecycles,
    metrics::NriMetrics,
    plugin::{EventSubject, Plugin},
};
use crate::{
    config::settings::NriSettings,
    model::{
        container::ContainerMetadata,
        id::SandboxId,
        record::{ContainerRecord, SandboxRecord},
        sandbox::PodMetadata,
    },
    store::{handle::Store, snapshot::Snapshot},
    translate::render::nri::{ContainerView, PodView, container, pod},
};

/// The plugins of this node; nothing where NRI is off. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Nri(Option<Arc<Shared>>);

/// What all parts share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: NriSettings,
    pub(super) store: Store,
    pub(super) hooks: OnceLock<NriHooks>,
    pub(super) metrics: NriMetrics,
    pub(super) tracker: TaskTracker,
    /// Cancelled when dockbridge ends.
    pub(super) leaving: CancellationToken,
    pub(super) creations: Creations,
    /// Network namespaces of pods are pinned here, by id.
    netns_dir: PathBuf,
    plugins: Mutex<Plugins>,
    /// One plugin at a time is synchronised: an event waits for one at most.
    pub(super) joining: Mutex<()>,
}

/// What one event at a time may change.
#[derive(Debug, Default)]
pub(super) struct Plugins {
    /// In the order in which they are asked.
    pub(super) connected: Vec<Arc<Plugin>>,
    pub(super) lifecycles: Lifecycles,
}

impl Nri {
    /// Plugins by these settings. They are served from [`Self::serve`] on.
    pub fn new(
        settings: NriSettings,
        store: Store,
        netns_dir: PathBuf,
        work: (&TaskTracker, &CancellationToken),
    ) -> Self {
        Self(Some(Arc::new(Shared {
            settings,
            store,
            hooks: OnceLock::new(),
            metrics: NriMetrics::default(),
            tracker: work.0.clone(),
            leaving: work.1.clone(),
            creations: Creations::default(),
            netns_dir,
            plugins: Mutex::default(),
            joining: Mutex::default(),
        })))
    }

    /// Starts the plugins of the directory, and listens for others, until dockbridge ends.
    pub async fn serve(&self, hooks: NriHooks) {
        let Some(shared) = &self.0 else { return };
        // There is one set of services.
        let _ = shared.hooks.set(hooks);
        shared.serve().await;
    }

    /// Its metrics.
    pub fn metrics(&self) -> NriMetrics {
        self.0.as_ref().map(|shared| shared.metrics.clone()).unwrap_or_default()
    }

    pub(super) const fn shared(&self) -> Option<&Arc<Shared>> {
        self.0.as_ref()
    }

    /// Announces that a pod is being created: while plugins are asked about it, no answer shows it.
    ///
    /// # Errors
    /// A required plugin is not connected.
    pub async fn begin_pod(&self, metadata: &PodMetadata) -> Result<Option<Creation>, NriError> {
        self.begin(Identity::Pod(metadata.clone())).await
    }

    /// Announces that a container is being created.
    ///
    /// # Errors
    /// As [`Self::begin_pod`].
    pub async fn begin_container(
        &self,
        pod: &SandboxId,
        metadata: &ContainerMetadata,
    ) -> Result<Option<Creation>, NriError> {
        self.begin(Identity::Container(pod.clone(), metadata.clone())).await
    }

    async fn begin(&self, identity: Identity) -> Result<Option<Creation>, NriError> {
        let Some(shared) = &self.0 else { return Ok(None) };
        self.require().await?;
        Ok(Some(shared.creations.begin(identity)))
    }

    /// Whether all plugins are connected that the administrator requires.
    pub(super) async fn require(&self) -> Result<(), NriError> {
        match &self.0 {
            Some(shared) if !shared.settings.required.is_empty() => {
                shared.require(&shared.plugins().await.connected)
            }
            _ => Ok(()),
        }
    }

    /// What callers see of it: nothing that plugins are being asked about.
    pub fn shown(&self, now: Arc<Snapshot>) -> Arc<Snapshot> {
        let Some(shared) = &self.0 else { return now };
        let creations = &shared.creations;
        if !creations.hide_anything() {
            return now;
        }
        now.without(|pod| creations.hides_pod(pod), |one| creations.hides_container(one))
    }

    /// Tells when something is shown that was hidden.
    pub fn reveals(&self) -> Reveals {
        self.0.as_ref().map(|shared| shared.creations.reveals()).unwrap_or_default()
    }

    /// Whether callers do not see the pod, because plugins are asked about it.
    pub fn hides_pod(&self, record: &SandboxRecord) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.creations.hides_pod(record))
    }
}

impl Shared {
    /// The plugins. The lock makes sure that one event is sent at a time.
    pub(super) async fn plugins(&self) -> MutexGuard<'_, Plugins> {
        self.plugins.lock().await
    }

    /// The plugins, if nobody has them.
    pub(super) fn plugins_now(&self) -> Option<MutexGuard<'_, Plugins>> {
        self.plugins.lock().now_or_never()
    }

    /// Whether those that the administrator requires are among these.
    pub(super) fn require(&self, connected: &[Arc<Plugin>]) -> Result<(), NriError> {
        let is_there = |name: &&String| {
            connected.iter().any(|plugin| {
                !plugin.connection.is_closed()
                    && (plugin.name == **name || plugin.full_name() == **name)
            })
        };
        let missing: Vec<&str> = (self.settings.required.iter())
            .filter(|name| !is_there(name))
            .map(String::as_str)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(NriError::Missing { missing: missing.join(", ") })
    }

    pub(super) fn pod_subject(&self, now: &Snapshot, record: &SandboxRecord) -> EventSubject {
        EventSubject { pod: Some(pod(&self.pod_view(now, record))), container: None }
    }

    /// A container for plugins, with its pod as far as it is known.
    pub(super) fn container_subject(
        &self,
        now: &Snapshot,
        record: &ContainerRecord,
    ) -> EventSubject {
        let pod = now.sandbox(record.document.sandbox.as_str());
        EventSubject {
            pod: pod.map(|record| self.pod_view(now, record)).as_ref().map(self::pod),
            container: Some(container(&self.container_view(now, record))),
        }
    }

    pub(super) fn pod_view<'a>(&self, now: &'a Snapshot, record: &'a SandboxRecord) -> PodView<'a> {
        let limits = self.hooks.get().map(|hooks| (hooks.pod_limits)(record));
        let pin = self.netns_dir.join(record.id.as_str());
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
        let limits = self.hooks.get().map(|hooks| (hooks.limits)(record));
        ContainerView {
            record,
            resources: limits.unwrap_or_else(|| record.limits.clone()),
            pod: now.sandbox(record.document.sandbox.as_str()).map(|pod| &**pod),
            engine: now.engine.as_deref(),
        }
    }
}

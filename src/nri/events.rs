//! Events of pods and containers. An event goes to the subscribed plugins in the order of their indices. Plugins can
//! refuse some events, but not a stop or a removal, so a plugin cannot prevent the end of a pod.

use std::sync::Arc;

use super::{
    container_updates::ALL_PLUGINS,
    creation::Creation,
    lifecycle::Stage,
    plugin::EventSubject,
    service::{LockedPlugins, Nri},
};
use crate::{
    error::Failure,
    model::{
        record::{ContainerRecord, SandboxRecord},
        resources::{PodResources, Resources},
    },
    translate::{
        limits,
        nri::{owners::Owners, updates::Updates},
        parse::adjustment::impossible,
    },
    wire::nri::{self, Event},
};

impl Nri {
    /// Asks plugins about a pod that Docker has created and that has no containers yet.
    ///
    /// # Errors
    /// A plugin refuses the pod, or a required plugin is missing. The plugins that were asked then get the
    /// events StopPodSandbox and RemovePodSandbox.
    pub async fn run_pod(
        &self,
        creation: Option<&Creation>,
        record: &Arc<SandboxRecord>,
    ) -> Result<(), Failure> {
        // A required plugin may have disconnected since the creation began, so that no plugin is left to ask.
        let Some(mut locked) = self.lock_to_ask(creation).await else {
            return self.check_required_plugins().await;
        };
        let id = record.id.as_str();
        locked.plugins.pods.add(id, record, Stage::Running);
        let subject = locked.shared.pod_subject(record);
        let mut asked = 0;
        let outcome = locked.propose(Event::RunPodSandbox, &subject, &mut asked).await;
        if outcome.is_err() {
            let others = locked.plugins.connected.split_off(asked);
            locked.remove_pod(id).await;
            locked.plugins.connected.extend(others);
        }
        outcome
    }

    /// Whether dockbridge has told the plugins about a pod. Without connected plugins, the answer is true.
    pub async fn knows_pod(&self, id: &str) -> bool {
        let Some(locked) = self.lock_plugins().await else { return true };
        locked.plugins.connected.is_empty() || locked.plugins.pods.stage_of(id).is_some()
    }

    /// Tells plugins that the limits of a pod are about to change. Fails if a plugin refuses the change.
    pub async fn update_pod(
        &self,
        record: &SandboxRecord,
        newer: &PodResources,
    ) -> Result<(), Failure> {
        let Some(locked) = self.lock_plugins().await else { return Ok(()) };
        let request = nri::UpdatePodSandboxRequest {
            pod: locked.shared.pod_subject(record).pod,
            overhead_linux_resources: newer.overhead.as_ref().map(limits::nri::rendered),
            linux_resources: newer.resources.as_ref().map(limits::nri::rendered),
        };
        for plugin in &locked.plugins.connected {
            let _: Option<nri::UpdatePodSandboxResponse> =
                plugin.ask(Event::UpdatePodSandbox, &request).await?;
        }
        Ok(())
    }

    /// Tells plugins that the limits of a pod have changed.
    pub async fn pod_updated(&self, record: &SandboxRecord) {
        let Some(locked) = self.lock_plugins().await else { return };
        locked.announce(Event::PostUpdatePodSandbox, &locked.shared.pod_subject(record)).await;
    }

    /// Tells plugins that all containers of a pod have ended and the pod is about to end.
    pub async fn stop_pod(&self, id: &str) {
        let Some(mut locked) = self.lock_plugins().await else { return };
        for container in locked.plugins.containers.of_pod(id) {
            locked.stop_container(&container).await;
        }
        locked.stop_pod(id).await;
    }

    /// Tells plugins that a pod is gone.
    pub async fn remove_pod(&self, id: &str) {
        let Some(mut locked) = self.lock_plugins().await else { return };
        locked.remove_pod(id).await;
    }

    /// Tells plugins that a container will start. Fails if a plugin refuses, or if a required plugin is not connected.
    pub async fn start_container(&self, record: &ContainerRecord) -> Result<(), Failure> {
        let Some(mut locked) = self.lock_plugins().await else {
            return self.check_required_plugins().await;
        };
        let subject = locked.shared.container_subject(record);
        locked.propose(Event::StartContainer, &subject, &mut 0).await?;
        locked.plugins.containers.set_stage(record.id.as_str(), Stage::Starting);
        Ok(())
    }

    /// Tells plugins that a container has been created and that clients can see it.
    pub async fn container_created(&self, record: &ContainerRecord) {
        let Some(locked) = self.lock_plugins().await else { return };
        locked.announce(Event::PostCreateContainer, &locked.shared.container_subject(record)).await;
    }

    /// Ends a start. Reports a successful start to plugins, and the container's end if it has already ended.
    pub async fn container_started(&self, id: &str, was_started: bool) {
        let Some(mut locked) = self.lock_plugins().await else { return };
        // Plugins that know the container as running need no event of its start.
        let Some(Stage::Created | Stage::Starting) = locked.plugins.containers.stage_of(id) else {
            return;
        };
        let now = locked.shared.store.snapshot();
        locked.plugins.containers.set_stage(id, Stage::Created);
        if was_started {
            locked.post_start(id).await;
        }
        if now.container(id).is_some_and(|record| record.process.has_ended()) {
            locked.stop_container(id).await;
        }
    }

    /// Tells plugins that the limits of a container have changed.
    pub async fn container_updated(&self, id: &str) {
        let Some(locked) = self.lock_plugins().await else { return };
        let now = locked.shared.store.snapshot();
        let Some(record) = now.container(id) else { return };
        locked.announce(Event::PostUpdateContainer, &locked.shared.container_subject(record)).await;
    }

    /// Tells plugins that the limits of a container are about to change. Returns the new limits with the
    /// plugins' changes. Fails if a plugin refuses the change, or requests an impossible limit.
    pub async fn update_container(
        &self,
        record: &ContainerRecord,
        asked: Resources,
    ) -> Result<Resources, Failure> {
        let Some(locked) = self.lock_plugins().await else { return Ok(asked) };
        let EventSubject { pod, container } = locked.shared.container_subject(record);
        let (mut owners, mut updates) = (Owners::default(), Updates::default());
        let (mut wanted, mut evictions) = (asked.clone(), Vec::new());
        for plugin in &locked.plugins.connected {
            let request = nri::UpdateContainerRequest {
                pod: pod.clone(),
                container: container.clone(),
                linux_resources: Some(limits::nri::rendered(&wanted)),
            };
            let answer: Option<nri::UpdateContainerResponse> =
                plugin.ask(Event::UpdateContainer, &request).await?;
            let Some(answer) = answer else { continue };
            updates.add(&mut owners, &plugin.full_name(), &answer.update)?;
            evictions.extend(answer.evict);
            if let Some(merged) = updates.limits_of(record.id.as_str()) {
                wanted = asked.updated(&limits::nri::read(merged).map_err(impossible)?);
            }
        }
        let others = updates.of_others(record.id.as_str());
        drop(locked.shared.carry_out(ALL_PLUGINS.to_owned(), others, evictions));
        Ok(wanted)
    }

    /// Tells plugins that a container has ended. During a start, [`Self::container_started`] reports the end instead.
    pub async fn stop_container(&self, id: &str) {
        let Some(mut locked) = self.lock_plugins().await else { return };
        if locked.plugins.containers.stage_of(id) != Some(Stage::Starting) {
            locked.stop_container(id).await;
        }
    }

    /// Tells plugins about the removal of a container.
    pub async fn remove_container(&self, id: &str) {
        let Some(mut locked) = self.lock_plugins().await else { return };
        locked.remove_container(id).await;
    }

    /// Locks the plugins. Returns `None` if NRI is off, or if the lock is free and no plugin is connected.
    pub(super) async fn lock_plugins(&self) -> Option<LockedPlugins<'_>> {
        let shared = self.0.as_ref().filter(|shared| !shared.is_idle())?;
        Some(shared.lock_plugins().await)
    }

    /// Locks the plugins to ask them about a new pod or container. `None` if dockbridge need not ask. While the lock is
    /// held, no plugin finishes connecting: later plugins receive the pod or container as an existing one.
    pub(super) async fn lock_to_ask(
        &self,
        creation: Option<&Creation>,
    ) -> Option<LockedPlugins<'_>> {
        let (shared, creation) = (self.0.as_ref()?, creation?);
        if !shared.creations.must_ask(creation) {
            return None;
        }
        let locked = shared.lock_plugins().await;
        shared.creations.set_asked(creation);
        Some(locked)
    }
}

impl LockedPlugins<'_> {
    /// Asks the plugins in order, until one refuses. Increases `asked` by the number of asked plugins.
    async fn propose(
        &self,
        event: Event,
        subject: &EventSubject,
        asked: &mut usize,
    ) -> Result<(), Failure> {
        for plugin in &self.plugins.connected {
            *asked += 1;
            plugin.tell(event, subject).await?;
        }
        // dockbridge may just have disconnected a required plugin, because the plugin did not answer.
        self.check_required_plugins()
    }

    /// Tells the subscribed plugins about an event that they cannot refuse.
    async fn announce(&self, event: Event, subject: &EventSubject) {
        for plugin in &self.plugins.connected {
            if let Err(refusal) = plugin.tell(event, subject).await {
                refusal.log();
            }
        }
    }

    async fn stop_pod(&mut self, id: &str) {
        let Some(known) = self.plugins.pods.stop(id) else { return };
        let now = self.shared.store.snapshot();
        let subject = self.shared.pod_subject(now.sandbox(id).unwrap_or(&known));
        self.announce(Event::StopPodSandbox, &subject).await;
    }

    pub(super) async fn remove_pod(&mut self, id: &str) {
        for container in self.plugins.containers.of_pod(id) {
            self.remove_container(&container).await;
        }
        self.stop_pod(id).await;
        let Some(known) = self.plugins.pods.0.remove(id) else { return };
        self.announce(Event::RemovePodSandbox, &self.shared.pod_subject(&known.record)).await;
    }

    pub(super) async fn post_start(&mut self, id: &str) {
        let now = self.shared.store.snapshot();
        let Some(record) = now.container(id) else { return };
        self.plugins.containers.set_stage(id, Stage::Running);
        self.announce(Event::PostStartContainer, &self.shared.container_subject(record)).await;
    }

    pub(super) async fn stop_container(&mut self, id: &str) {
        let Some(known) = self.plugins.containers.stop(id) else { return };
        let now = self.shared.store.snapshot();
        let EventSubject { pod, container } =
            self.shared.container_subject(now.container(id).unwrap_or(&known));
        let request = nri::StopContainerRequest { pod, container };
        let mut requested = Vec::new();
        for plugin in &self.plugins.connected {
            match plugin.ask::<nri::StopContainerResponse>(Event::StopContainer, &request).await {
                Ok(None) => {}
                Ok(Some(answer)) => requested.push((plugin.full_name(), answer.update)),
                Err(refusal) => refusal.log(),
            }
        }
        for (plugin, updates) in requested {
            drop(self.shared.carry_out(plugin, updates, Vec::new()));
        }
    }

    pub(super) async fn remove_container(&mut self, id: &str) {
        self.stop_container(id).await;
        let Some(known) = self.plugins.containers.0.remove(id) else { return };
        let subject = self.shared.container_subject(&known.record);
        self.announce(Event::RemoveContainer, &subject).await;
    }
}

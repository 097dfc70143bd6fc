//! Events of pods and containers. Each event goes to the subscribed plugins, in the order of their indices.
//!
//! Plugins can refuse a start, but not a stop or a removal, so a plugin cannot prevent the end of a pod.

use std::sync::Arc;

use super::{
    container_updates::ALL_PLUGINS,
    creation::Creation,
    lifecycle::Stage,
    plugin::EventSubject,
    service::{Nri, Turn},
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
    /// A plugin refuses the pod, or a required plugin is missing. All plugins that were asked then get an
    /// event for the pod's end.
    pub async fn run_pod(
        &self,
        creation: Option<&Creation>,
        record: &Arc<SandboxRecord>,
    ) -> Result<(), Failure> {
        // A required plugin may have disconnected since the creation began, so that no plugin is left to ask.
        let Some(mut turn) = self.asked_about(creation).await else { return self.require().await };
        let id = record.id.as_str();
        turn.plugins.pods.add(id, record, Stage::Running);
        let subject = turn.shared.pod_subject(record);
        let mut asked = 0;
        let agreed = turn.propose(Event::RunPodSandbox, &subject, &mut asked).await;
        if agreed.is_err() {
            let others = turn.plugins.connected.split_off(asked);
            turn.remove_pod(id).await;
            turn.plugins.connected.extend(others);
        }
        agreed
    }

    /// Whether dockbridge has told the plugins about a pod. Without connected plugins, the answer is true.
    pub async fn knows_pod(&self, id: &str) -> bool {
        let Some(turn) = self.turn().await else { return true };
        turn.plugins.connected.is_empty() || turn.plugins.pods.stage_of(id).is_some()
    }

    /// Tells plugins that the limits of a pod are about to change. Fails if a plugin refuses the change.
    pub async fn update_pod(
        &self,
        record: &SandboxRecord,
        newer: &PodResources,
    ) -> Result<(), Failure> {
        let Some(turn) = self.turn().await else { return Ok(()) };
        let request = nri::UpdatePodSandboxRequest {
            pod: turn.shared.pod_subject(record).pod,
            overhead_linux_resources: newer.overhead.as_ref().map(limits::nri::rendered),
            linux_resources: newer.resources.as_ref().map(limits::nri::rendered),
        };
        for plugin in &turn.plugins.connected {
            let _: Option<nri::UpdatePodSandboxResponse> =
                plugin.ask(Event::UpdatePodSandbox, &request).await?;
        }
        Ok(())
    }

    /// Tells plugins that the limits of a pod have changed.
    pub async fn pod_updated(&self, record: &SandboxRecord) {
        let Some(turn) = self.turn().await else { return };
        turn.announce(Event::PostUpdatePodSandbox, &turn.shared.pod_subject(record)).await;
    }

    /// Tells plugins that all containers of a pod have ended and the pod is about to end.
    pub async fn stop_pod(&self, id: &str) {
        let Some(mut turn) = self.turn().await else { return };
        for container in turn.plugins.containers.of_pod(id) {
            turn.stop_container(&container).await;
        }
        turn.stop_pod(id).await;
    }

    /// Tells plugins that a pod is gone.
    pub async fn remove_pod(&self, id: &str) {
        let Some(mut turn) = self.turn().await else { return };
        turn.remove_pod(id).await;
    }

    /// Tells plugins about a start. Fails if a plugin refuses, or if a required plugin is not connected.
    pub async fn start_container(&self, record: &ContainerRecord) -> Result<(), Failure> {
        let Some(mut turn) = self.turn().await else { return self.require().await };
        let subject = turn.shared.container_subject(record);
        turn.propose(Event::StartContainer, &subject, &mut 0).await?;
        turn.plugins.containers.set_stage(record.id.as_str(), Stage::Starting);
        Ok(())
    }

    /// Tells plugins that Docker has created a container.
    pub async fn container_created(&self, record: &ContainerRecord) {
        let Some(turn) = self.turn().await else { return };
        turn.announce(Event::PostCreateContainer, &turn.shared.container_subject(record)).await;
    }

    /// Ends a start: tells plugins if it succeeded, and then if the container has already ended.
    pub async fn container_started(&self, id: &str, was_started: bool) {
        let Some(mut turn) = self.turn().await else { return };
        // Plugins that know the container as running have already received this event.
        let Some(Stage::Created | Stage::Starting) = turn.plugins.containers.stage_of(id) else {
            return;
        };
        let now = turn.shared.store.snapshot();
        turn.plugins.containers.set_stage(id, Stage::Created);
        if was_started {
            turn.post_start(id).await;
        }
        if now.container(id).is_some_and(|record| record.process.has_ended()) {
            turn.stop_container(id).await;
        }
    }

    /// Tells plugins that the limits of a container have changed.
    pub async fn container_updated(&self, id: &str) {
        let Some(turn) = self.turn().await else { return };
        let now = turn.shared.store.snapshot();
        let Some(record) = now.container(id) else { return };
        turn.announce(Event::PostUpdateContainer, &turn.shared.container_subject(record)).await;
    }

    /// Tells plugins that the limits of a container are about to change. Returns the new limits with the
    /// plugins' changes. Fails if a plugin refuses the change, or requests an impossible limit.
    pub async fn update_container(
        &self,
        record: &ContainerRecord,
        asked: Resources,
    ) -> Result<Resources, Failure> {
        let Some(turn) = self.turn().await else { return Ok(asked) };
        let EventSubject { pod, container } = turn.shared.container_subject(record);
        let (mut owners, mut updates) = (Owners::default(), Updates::default());
        let (mut wanted, mut evictions) = (asked.clone(), Vec::new());
        for plugin in &turn.plugins.connected {
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
        drop(turn.shared.carry_out(ALL_PLUGINS.to_owned(), others, evictions));
        Ok(wanted)
    }

    /// Tells plugins that a container has ended. During a start, the call for the start sends the events.
    pub async fn stop_container(&self, id: &str) {
        let Some(mut turn) = self.turn().await else { return };
        if turn.plugins.containers.stage_of(id) != Some(Stage::Starting) {
            turn.stop_container(id).await;
        }
    }

    /// Tells plugins that a container is gone.
    pub async fn remove_container(&self, id: &str) {
        let Some(mut turn) = self.turn().await else { return };
        turn.remove_container(id).await;
    }

    /// Locks the plugins for one event. Returns `None` if no plugin is connected and none is being set up.
    pub(super) async fn turn(&self) -> Option<Turn<'_>> {
        let shared = self.0.as_ref().filter(|shared| !shared.is_idle())?;
        Some(shared.turn().await)
    }

    /// Locks the plugins to ask them about a new pod or container. Returns `None` if dockbridge need not ask.
    /// No plugin can finish connecting during the lock, so each plugin is either asked, or connects later and
    /// receives the pod or container as an existing one.
    pub(super) async fn asked_about(&self, creation: Option<&Creation>) -> Option<Turn<'_>> {
        let (shared, creation) = (self.0.as_ref()?, creation?);
        if !shared.creations.must_ask(creation) {
            return None;
        }
        let turn = shared.turn().await;
        shared.creations.set_asked(creation);
        Some(turn)
    }
}

impl Turn<'_> {
    /// Asks the plugins in order, until one refuses. Adds the number of plugins that it asked to `asked`.
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
        self.require()
    }

    /// Tells all plugins about an event that has already happened, so they cannot refuse it.
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

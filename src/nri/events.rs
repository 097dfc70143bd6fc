//! Events of pods and containers. Each is sent to all plugins that subscribed to it, in their order.
//!
//! Plugins may refuse a start, but not a stop or a removal, so a plugin cannot keep a pod from ending.

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
    /// A pod was created and nothing runs in it yet.
    ///
    /// # Errors
    /// A plugin refuses it. Plugins that were asked before it got an event for its end.
    pub async fn run_pod(
        &self,
        creation: Option<&Creation>,
        record: &Arc<SandboxRecord>,
    ) -> Result<(), Failure> {
        let Some(mut turn) = self.asked_about(creation).await else { return Ok(()) };
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

    /// Whether the plugins know a pod. Without plugins, every pod counts as known.
    pub async fn knows_pod(&self, id: &str) -> bool {
        let Some(turn) = self.turn().await else { return true };
        turn.plugins.connected.is_empty() || turn.plugins.pods.stage_of(id).is_some()
    }

    /// Limits of a pod are about to change. Fails if a plugin refuses.
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

    /// Limits of a pod have changed.
    pub async fn pod_updated(&self, record: &SandboxRecord) {
        let Some(turn) = self.turn().await else { return };
        turn.announce(Event::PostUpdatePodSandbox, &turn.shared.pod_subject(record)).await;
    }

    /// All containers of a pod have ended, and the pod is about to end.
    pub async fn stop_pod(&self, id: &str) {
        let Some(mut turn) = self.turn().await else { return };
        for container in turn.plugins.containers.of_pod(id) {
            turn.stop_container(&container).await;
        }
        turn.stop_pod(id).await;
    }

    /// A pod is gone.
    pub async fn remove_pod(&self, id: &str) {
        let Some(mut turn) = self.turn().await else { return };
        turn.remove_pod(id).await;
    }

    /// A container is about to be started. Fails if a plugin refuses, or a required one is not connected.
    pub async fn start_container(&self, record: &ContainerRecord) -> Result<(), Failure> {
        let Some(mut turn) = self.turn().await else { return self.require().await };
        let subject = turn.shared.container_subject(record);
        turn.propose(Event::StartContainer, &subject, &mut 0).await?;
        turn.plugins.containers.set_stage(record.id.as_str(), Stage::Starting);
        Ok(())
    }

    /// A container was made.
    pub async fn container_created(&self, record: &ContainerRecord) {
        let Some(turn) = self.turn().await else { return };
        turn.announce(Event::PostCreateContainer, &turn.shared.container_subject(record)).await;
    }

    /// A container was started, or its start failed. Its end is not reported before this.
    pub async fn container_started(&self, id: &str, was_started: bool) {
        let Some(mut turn) = self.turn().await else { return };
        // A container that plugins already know as running has had this event.
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

    /// Limits of a container have changed.
    pub async fn container_updated(&self, id: &str) {
        let Some(turn) = self.turn().await else { return };
        let now = turn.shared.store.snapshot();
        let Some(record) = now.container(id) else { return };
        turn.announce(Event::PostUpdateContainer, &turn.shared.container_subject(record)).await;
    }

    /// Limits of a container are about to change. Returns them with the changes of plugins. Fails if a
    /// plugin refuses, or requests an impossible limit.
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
        turn.shared.carry_out(ALL_PLUGINS.to_owned(), others, evictions);
        Ok(wanted)
    }

    /// A container has ended. If it is still being started, the result of the start determines the
    /// events.
    pub async fn stop_container(&self, id: &str) {
        let Some(mut turn) = self.turn().await else { return };
        if turn.plugins.containers.stage_of(id) != Some(Stage::Starting) {
            turn.stop_container(id).await;
        }
    }

    /// A container is gone.
    pub async fn remove_container(&self, id: &str) {
        let Some(mut turn) = self.turn().await else { return };
        turn.remove_container(id).await;
    }

    /// The plugins, if at least one is connected or is being set up.
    pub(super) async fn turn(&self) -> Option<Turn<'_>> {
        let shared = self.shared().filter(|shared| !shared.is_idle())?;
        Some(shared.turn().await)
    }

    /// The plugins, if they must be asked about the object that is being created. While they are locked, no
    /// plugin can connect. One that connected before is also asked, and one that connects later receives
    /// the object as existing.
    pub(super) async fn asked_about(&self, creation: Option<&Creation>) -> Option<Turn<'_>> {
        let (shared, creation) = (self.shared()?, creation?);
        if !shared.creations.must_ask(creation) {
            return None;
        }
        let turn = shared.turn().await;
        shared.creations.set_asked(creation);
        Some(turn)
    }
}

impl Turn<'_> {
    /// Asks all plugins until one refuses. Counts how many were asked.
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
        // A required plugin may just have been disconnected.
        self.require()
    }

    /// Notifies all plugins of something that has already happened.
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
            self.shared.carry_out(plugin, updates, Vec::new());
        }
    }

    pub(super) async fn remove_container(&mut self, id: &str) {
        self.stop_container(id).await;
        let Some(known) = self.plugins.containers.0.remove(id) else { return };
        let subject = self.shared.container_subject(&known.record);
        self.announce(Event::RemoveContainer, &subject).await;
    }
}

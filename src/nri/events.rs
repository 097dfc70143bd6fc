//! Events of pods and containers. Each is sent to all plugins that subscribed to it, in their order.
//!
//! Plugins may refuse a start, but not a stop or a removal, so a plugin cannot keep a pod from ending.

use std::sync::Arc;

use prost::Message;
use tokio::sync::MutexGuard;
use tracing::warn;

use super::{
    container_updates::{ALL_PLUGINS, RequestedUpdates},
    create_container::refused,
    creation::{Creation, Identity},
    lifecycle::{Lifecycles, Stage},
    plugin::{Answer, EventSubject, Plugin, method},
    service::{Nri, Plugins, Shared},
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
        let Some((shared, mut plugins)) = self.asked_about(creation).await else { return Ok(()) };
        plugins.lifecycles.add_pod(record, Stage::Running);
        let subject = shared.pod_subject(&shared.store.snapshot(), record);
        let mut asked = 0;
        let agreed = shared.propose(&plugins, (Event::RunPodSandbox, &subject), &mut asked).await;
        if agreed.is_err() {
            let others = plugins.connected.split_off(asked);
            shared.remove_pod(&mut plugins, record.id.as_str()).await;
            plugins.connected.extend(others);
        }
        shared.sweep(&mut plugins);
        agreed
    }

    /// Whether the plugins know a pod. Without plugins, every pod counts as known.
    pub async fn knows_pod(&self, id: &str) -> bool {
        let Some(shared) = self.connected() else { return true };
        let plugins = shared.plugins().await;
        plugins.connected.is_empty() || plugins.lifecycles.pods.contains_key(id)
    }

    /// Limits of a pod are about to change.
    ///
    /// # Errors
    /// A plugin refuses.
    pub async fn update_pod(
        &self,
        record: &SandboxRecord,
        newer: &PodResources,
    ) -> Result<(), Failure> {
        let Some(shared) = self.connected() else { return Ok(()) };
        let plugins = shared.plugins().await;
        let request = nri::UpdatePodSandboxRequest {
            pod: shared.pod_subject(&shared.store.snapshot(), record).pod,
            overhead_linux_resources: newer.overhead.as_ref().map(limits::nri::rendered),
            linux_resources: newer.resources.as_ref().map(limits::nri::rendered),
        };
        for plugin in &plugins.connected {
            let answer: Answer<nri::UpdatePodSandboxResponse> =
                shared.ask(plugin, Event::UpdatePodSandbox, &request).await;
            shared.agreed(plugin, Event::UpdatePodSandbox, answer)?;
        }
        Ok(())
    }

    /// Limits of a pod have changed.
    pub async fn pod_updated(&self, record: &SandboxRecord) {
        let Some(shared) = self.connected() else { return };
        let plugins = shared.plugins().await;
        let subject = shared.pod_subject(&shared.store.snapshot(), record);
        shared.announce(&plugins, Event::PostUpdatePodSandbox, &subject).await;
    }

    /// All containers of a pod have ended, and the pod is about to end.
    pub async fn stop_pod(&self, id: &str) {
        let Some(shared) = self.connected() else { return };
        let mut plugins = shared.plugins().await;
        for container in plugins.lifecycles.containers_of(id) {
            shared.stop_container(&mut plugins, &container).await;
        }
        shared.stop_pod(&mut plugins, id).await;
        shared.sweep(&mut plugins);
    }

    /// A pod is gone.
    pub async fn remove_pod(&self, id: &str) {
        let Some(shared) = self.connected() else { return };
        let mut plugins = shared.plugins().await;
        for container in plugins.lifecycles.containers_of(id) {
            shared.remove_container(&mut plugins, &container).await;
        }
        shared.remove_pod(&mut plugins, id).await;
        shared.sweep(&mut plugins);
    }

    /// A container is about to be started.
    ///
    /// # Errors
    /// A plugin refuses, or a required one is not connected.
    pub async fn start_container(&self, record: &ContainerRecord) -> Result<(), Failure> {
        let Some(shared) = self.connected() else { return self.require().await };
        let mut plugins = shared.plugins().await;
        let subject = shared.container_subject(&shared.store.snapshot(), record);
        let agreed = shared.propose(&plugins, (Event::StartContainer, &subject), &mut 0).await;
        if agreed.is_ok() {
            plugins.lifecycles.set_stage(record.id.as_str(), Stage::Starting);
        }
        shared.sweep(&mut plugins);
        agreed
    }

    /// A container was made.
    pub async fn container_created(&self, record: &ContainerRecord) {
        let Some(shared) = self.connected() else { return };
        let plugins = shared.plugins().await;
        let subject = shared.container_subject(&shared.store.snapshot(), record);
        shared.announce(&plugins, Event::PostCreateContainer, &subject).await;
    }

    /// A container was started, or its start failed. Its end is not reported before this.
    pub async fn container_started(&self, id: &str, was_started: bool) {
        let Some(shared) = self.connected() else { return };
        let mut plugins = shared.plugins().await;
        // A container that plugins already know as running has had this event.
        let Some(Stage::Created | Stage::Starting) = plugins.lifecycles.stage_of(id) else {
            return;
        };
        let now = shared.store.snapshot();
        plugins.lifecycles.set_stage(id, Stage::Created);
        if was_started {
            shared.post_start(&mut plugins, id).await;
        }
        if now.container(id).is_some_and(|record| record.process.has_ended()) {
            shared.stop_container(&mut plugins, id).await;
        }
        shared.sweep(&mut plugins);
    }

    /// Limits of a container have changed.
    pub async fn container_updated(&self, id: &str) {
        let Some(shared) = self.connected() else { return };
        let plugins = shared.plugins().await;
        let now = shared.store.snapshot();
        let Some(record) = now.container(id) else { return };
        let subject = shared.container_subject(&now, record);
        shared.announce(&plugins, Event::PostUpdateContainer, &subject).await;
    }

    /// Limits of a container are about to change. Returns them with the changes of plugins.
    ///
    /// # Errors
    /// A plugin refuses, or requests an impossible limit.
    pub async fn update_container(
        &self,
        record: &ContainerRecord,
        asked: Resources,
    ) -> Result<Resources, Failure> {
        let Some(shared) = self.connected() else { return Ok(asked) };
        let plugins = shared.plugins().await;
        let EventSubject { pod, container } =
            shared.container_subject(&shared.store.snapshot(), record);
        let (mut owners, mut updates) = (Owners::default(), Updates::default());
        let (mut wanted, mut evictions) = (asked.clone(), Vec::new());
        for plugin in &plugins.connected {
            let request = nri::UpdateContainerRequest {
                pod: pod.clone(),
                container: container.clone(),
                linux_resources: Some(limits::nri::rendered(&wanted)),
            };
            let answer: Answer<nri::UpdateContainerResponse> =
                shared.ask(plugin, Event::UpdateContainer, &request).await;
            let Some(answer) = shared.agreed(plugin, Event::UpdateContainer, answer)? else {
                continue;
            };
            updates.add(&mut owners, &plugin.full_name(), &answer.update)?;
            evictions.extend(answer.evict);
            if let Some(merged) = updates.limits_of(record.id.as_str()) {
                wanted = asked.updated(&limits::nri::read(merged).map_err(impossible)?);
            }
        }
        let others = updates.of_others(record.id.as_str());
        let plugin = ALL_PLUGINS.to_owned();
        shared.carry_out(RequestedUpdates { plugin, updates: others, evictions });
        Ok(wanted)
    }

    /// A container has ended. If it is still being started, the result of the start decides about events.
    pub async fn stop_container(&self, id: &str) {
        let Some(shared) = self.connected() else { return };
        let mut plugins = shared.plugins().await;
        if plugins.lifecycles.stage_of(id) == Some(Stage::Starting) {
            return;
        }
        shared.stop_container(&mut plugins, id).await;
        shared.sweep(&mut plugins);
    }

    /// A container is gone.
    pub async fn remove_container(&self, id: &str) {
        let Some(shared) = self.connected() else { return };
        let mut plugins = shared.plugins().await;
        shared.remove_container(&mut plugins, id).await;
        shared.sweep(&mut plugins);
    }

    /// The plugins, if at least one is connected.
    pub(super) fn connected(&self) -> Option<&Arc<Shared>> {
        let shared = self.shared()?;
        match shared.plugins_now() {
            Some(plugins) if plugins.connected.is_empty() => None,
            // Plugins are being called, or one is being set up.
            _ => Some(shared),
        }
    }

    /// The plugins, if they must be asked about the object that is being created. While they are locked, no
    /// plugin can connect. One that connected before is also asked, and one that connects later receives
    /// the object as existing.
    pub(super) async fn asked_about(
        &self,
        creation: Option<&Creation>,
    ) -> Option<(&Arc<Shared>, MutexGuard<'_, Plugins>)> {
        let (shared, creation) = (self.shared()?, creation?);
        if !shared.creations.must_ask(creation) {
            return None;
        }
        let plugins = shared.plugins().await;
        shared.creations.set_asked(creation);
        Some((shared, plugins))
    }
}

impl Shared {
    /// Asks all plugins until one refuses. Returns how many were asked.
    async fn propose(
        &self,
        plugins: &Plugins,
        (event, subject): (Event, &EventSubject),
        asked: &mut usize,
    ) -> Result<(), Failure> {
        for plugin in &plugins.connected {
            *asked += 1;
            let limit = self.settings.request_timeout;
            let answer = plugin.tell(event, subject, limit, &self.metrics).await;
            self.agreed(plugin, event, answer)?;
        }
        // A required plugin may just have been disconnected.
        self.require(&plugins.connected)
    }

    /// Notifies all plugins of something that has already happened.
    pub(super) async fn announce(&self, plugins: &Plugins, event: Event, subject: &EventSubject) {
        for plugin in &plugins.connected {
            let limit = self.settings.request_timeout;
            let answer = plugin.tell(event, subject, limit, &self.metrics).await;
            if let Answer::Refused { message, .. } = answer {
                note_refusal(plugin, event, &message);
            }
        }
    }

    pub(super) async fn ask<A: Message + Default>(
        &self,
        plugin: &Plugin,
        event: Event,
        request: &impl Message,
    ) -> Answer<A> {
        plugin.ask(event, request, self.settings.request_timeout, &self.metrics).await
    }

    /// The answer of a plugin, if it has one.
    pub(super) fn agreed<A>(
        &self,
        plugin: &Plugin,
        event: Event,
        answer: Answer<A>,
    ) -> Result<Option<A>, Failure> {
        match answer {
            Answer::Done(answer) => Ok(Some(answer)),
            Answer::None => Ok(None),
            Answer::Refused { message, .. } => Err(refused(plugin, event, &message)),
        }
    }

    async fn stop_pod(&self, plugins: &mut Plugins, id: &str) {
        let Some(known) = plugins.lifecycles.stop_pod(id) else { return };
        let now = self.store.snapshot();
        let subject = self.pod_subject(&now, now.sandbox(id).unwrap_or(&known));
        self.announce(plugins, Event::StopPodSandbox, &subject).await;
    }

    pub(super) async fn remove_pod(&self, plugins: &mut Plugins, id: &str) {
        self.stop_pod(plugins, id).await;
        let Some(known) = plugins.lifecycles.pods.remove(id) else { return };
        let subject = self.pod_subject(&self.store.snapshot(), &known.record);
        self.announce(plugins, Event::RemovePodSandbox, &subject).await;
    }

    pub(super) async fn post_start(&self, plugins: &mut Plugins, id: &str) {
        let now = self.store.snapshot();
        let Some(record) = now.container(id) else { return };
        plugins.lifecycles.set_stage(id, Stage::Running);
        let subject = self.container_subject(&now, record);
        self.announce(plugins, Event::PostStartContainer, &subject).await;
    }

    pub(super) async fn stop_container(self: &Arc<Self>, plugins: &mut Plugins, id: &str) {
        let Some(known) = plugins.lifecycles.stop_container(id) else { return };
        let now = self.store.snapshot();
        let EventSubject { pod, container } =
            self.container_subject(&now, now.container(id).unwrap_or(&known));
        let request = nri::StopContainerRequest { pod, container };
        let mut requested = Vec::new();
        for plugin in &plugins.connected {
            let answer: Answer<nri::StopContainerResponse> =
                self.ask(plugin, Event::StopContainer, &request).await;
            match answer {
                Answer::Done(answer) => {
                    requested.push(RequestedUpdates {
                        plugin: plugin.full_name(),
                        updates: answer.update,
                        evictions: Vec::new(),
                    });
                }
                Answer::Refused { message, .. } => {
                    note_refusal(plugin, Event::StopContainer, &message);
                }
                Answer::None => {}
            }
        }
        requested.into_iter().for_each(|updates| self.carry_out(updates));
    }

    pub(super) async fn remove_container(self: &Arc<Self>, plugins: &mut Plugins, id: &str) {
        self.stop_container(plugins, id).await;
        let Some(known) = plugins.lifecycles.containers.remove(id) else { return };
        let subject = self.container_subject(&self.store.snapshot(), &known.record);
        self.announce(plugins, Event::RemoveContainer, &subject).await;
    }

    /// Whether this object is in the store, but plugins were not asked about it yet.
    pub(super) fn is_unasked(&self, identity: &Identity) -> bool {
        self.creations.is_unasked(identity)
    }

    /// Forgets plugins that were disconnected. Without plugins, their knowledge is also forgotten.
    pub(super) fn sweep(&self, plugins: &mut Plugins) {
        plugins.connected.retain(|plugin| !plugin.connection.is_closed());
        let many = plugins.connected.len();
        self.metrics.connected.set(i64::try_from(many).unwrap_or(i64::MAX));
        if many == 0 {
            self.creations.set_asking(false);
            plugins.lifecycles = Lifecycles::default();
        }
    }
}

fn note_refusal(plugin: &Plugin, event: Event, message: &str) {
    let (plugin, call) = (plugin.full_name(), method(event));
    warn!(plugin, call, error = message, "an NRI plugin answered with an error; continuing");
}

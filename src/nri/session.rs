//! The life of one connection: the plugin registers, is configured and synchronised, is asked about
//! events by others, and asks for updates, until it ends.

use std::{sync::Arc, time::Duration};

use prost::Message;
use tokio::{net::UnixStream, sync::mpsc, time};
use tracing::{info, warn};

use super::{
    connection::{Closed, Connection, Incoming},
    creation::Identity,
    plugin::{ALL_EVENTS, Answer, Plugin, check_name, sort, word},
    service::Shared,
    told::Stage,
    ttrpc::{FAILED_PRECONDITION, INVALID_ARGUMENT, Request, Status, UNIMPLEMENTED, UNKNOWN},
};
use crate::{
    model::record::SandboxState,
    store::{settings::SYNC_TIMEOUT, snapshot::Snapshot},
    translate::{parse::adjustment::update as limits, render},
    wire::nri,
};

/// A plugin that dockbridge started: its file says who it is.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    pub(crate) index: String,
    pub(crate) name: String,
    /// Its configuration file.
    pub(super) config: String,
}

/// Updates and evictions that a plugin asked for.
pub(super) struct Wishes {
    pub(super) plugin: String,
    pub(super) updates: Vec<nri::ContainerUpdate>,
    pub(super) evictions: Vec<nri::ContainerEviction>,
}

impl Shared {
    /// Serves a plugin until its connection ends.
    pub(super) async fn session(self: Arc<Self>, socket: UnixStream, started: Option<Started>) {
        let (connection, mut calls) = Connection::open(socket);
        let ended = tokio::select! {
            ended = self.served(&connection, &mut calls, started) => ended,
            () = self.leaving.cancelled() => {
                // Only a goodbye: whatever the plugin says, this is the end.
                let _ = connection.call::<nri::Empty>("Shutdown", &nri::Empty {}, GOODBYE).await;
                Closed::ByUs
            }
        };
        let reason = connection.close(ended);
        self.metrics.dropped(word(&reason));
        let mut plugins = self.plugins().await;
        self.sweep(&mut plugins);
    }

    async fn served(
        self: &Arc<Self>,
        connection: &Connection,
        calls: &mut mpsc::Receiver<Incoming>,
        started: Option<Started>,
    ) -> Closed {
        let plugin = match self.admitted(connection, calls, started).await {
            Ok(plugin) => plugin,
            Err(reason) => {
                let reason = connection.close(reason);
                warn!(error = %reason, "an NRI plugin was not admitted");
                return reason;
            }
        };
        let name = plugin.full_name();
        info!(plugin = name, "NRI plugin connected and synchronised");
        let reason = self.updates(&plugin, calls).await;
        let error = reason.to_string();
        match reason {
            Closed::ByPlugin => info!(plugin = name, "NRI plugin disconnected"),
            _ => warn!(plugin = name, error, "NRI plugin dropped"),
        }
        reason
    }

    async fn admitted(
        self: &Arc<Self>,
        connection: &Connection,
        calls: &mut mpsc::Receiver<Incoming>,
        started: Option<Started>,
    ) -> Result<Arc<Plugin>, Closed> {
        let limit = self.settings.registration_timeout;
        let registering = time::timeout(limit, registered(connection, calls)).await;
        let late = || Closed::Timeout { method: "RegisterPlugin", limit };
        let (index, name) = registering.map_err(|_| late())??;
        let (index, name, config) = match started {
            // Its file says who it is.
            Some(Started { index, name, config }) => (index, name, config),
            None => (index, name, String::new()),
        };
        let mut plugin = Plugin { index, name, events: 0, connection: connection.clone() };
        plugin.events = self.configured(&plugin, config).await?;
        let plugin = Arc::new(plugin);
        self.synchronised(&plugin).await?;
        Ok(plugin)
    }

    /// The events that the plugin wants.
    async fn configured(&self, plugin: &Plugin, config: String) -> Result<i32, Closed> {
        let limit = self.settings.request_timeout;
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let request = nri::ConfigureRequest {
            config,
            runtime_name: "dockbridge".to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            registration_timeout: millis(self.settings.registration_timeout),
            request_timeout: millis(limit),
            nri_version: NRI_VERSION.to_owned(),
        };
        let answer: nri::ConfigureResponse =
            self.first(plugin, "Configure", &request, limit).await?;
        // No events mean all. Those that we do not know will not happen: a newer plugin works with
        // the rest.
        let events = if answer.events == 0 { ALL_EVENTS } else { answer.events };
        let unknown = events & !ALL_EVENTS;
        if unknown != 0 {
            let (plugin, events) = (plugin.full_name(), format!("{unknown:#x}"));
            info!(
                plugin,
                events, "an NRI plugin subscribed to events that dockbridge does not know"
            );
        }
        Ok(events & ALL_EVENTS)
    }

    /// Tells the plugin what there is; from then on it is asked about everything.
    async fn synchronised(self: &Arc<Self>, plugin: &Arc<Plugin>) -> Result<(), Closed> {
        let mut plugins = self.plugins().await;
        // Before the store is read: what is made from now on is asked about.
        self.creations.set_asking(true);
        let admitted = self.synchronise(plugin, &mut plugins.told).await;
        if admitted.is_ok() {
            plugins.connected.push(Arc::clone(plugin));
            sort(&mut plugins.connected);
        }
        self.sweep(&mut plugins);
        drop(plugins);
        self.carry_out(vec![(plugin.full_name(), admitted?, Vec::new())]);
        Ok(())
    }

    async fn synchronise(
        &self,
        plugin: &Plugin,
        told: &mut super::told::Told,
    ) -> Result<Vec<nri::ContainerUpdate>, Closed> {
        let unready = |_| Closed::Misbehaved("Docker has not listed its containers yet".to_owned());
        let now = self.store.synced(SYNC_TIMEOUT).await.map_err(unready)?;
        let (pods, containers) = self.existing(&now, told);
        let limit = self.settings.registration_timeout.max(self.settings.request_timeout);
        let mut portions = portions(pods, containers).into_iter().peekable();
        while let Some(mut portion) = portions.next() {
            portion.more = portions.peek().is_some();
            let answer: nri::SynchronizeResponse =
                self.first(plugin, "Synchronize", &portion, limit).await?;
            if !portion.more {
                return Ok(answer.update);
            }
            if !answer.more || !answer.update.is_empty() {
                let reason = "it does not take the state of this node in several portions";
                return Err(Closed::Misbehaved(reason.to_owned()));
            }
        }
        Ok(Vec::new())
    }

    /// What there is and plugins were asked about, or will not be.
    fn existing(
        &self,
        now: &Snapshot,
        told: &mut super::told::Told,
    ) -> (Vec<nri::PodSandbox>, Vec<nri::Container>) {
        let mut found = (Vec::new(), Vec::new());
        for record in now.sandboxes().iter().rev() {
            if self.is_unasked(&Identity::pod(record)) {
                continue;
            }
            found.0.push(render::nri::pod(&self.pod_view(now, record)));
            if !told.pods.contains_key(record.id.as_str()) {
                let is_ready = record.state() == SandboxState::Ready;
                told.add_pod(record, if is_ready { Stage::Alive } else { Stage::Stopped });
            }
        }
        for record in now.containers().iter().rev() {
            if self.is_unasked(&Identity::container(record)) {
                continue;
            }
            found.1.push(render::nri::container(&self.container_view(now, record)));
            if !told.containers.contains_key(record.id.as_str()) {
                let has_ended = record.process.has_ended();
                told.add_container(record, if has_ended { Stage::Stopped } else { Stage::Alive });
            }
        }
        found
    }

    /// A call without which there is no plugin.
    async fn first<A: Message + Default>(
        &self,
        plugin: &Plugin,
        method: &'static str,
        request: &impl Message,
        limit: Duration,
    ) -> Result<A, Closed> {
        match plugin.call(method, request, limit, &self.metrics).await {
            Answer::Done(answer) => Ok(answer),
            Answer::Refused { message, .. } => {
                Err(Closed::Misbehaved(format!("it refused {method}: {message}")))
            }
            Answer::None => Err(plugin.connection.closed().await),
        }
    }

    /// What the plugin asks for by itself.
    async fn updates(
        self: &Arc<Self>,
        plugin: &Plugin,
        calls: &mut mpsc::Receiver<Incoming>,
    ) -> Closed {
        let connection = &plugin.connection;
        loop {
            let Incoming { stream, request } = tokio::select! {
                call = calls.recv() => match call {
                    Some(call) => call,
                    None => return connection.closed().await,
                },
                reason = connection.closed() => return reason,
            };
            if request.service == RUNTIME_SERVICE && request.method == "RegisterPlugin" {
                return Closed::Misbehaved("it registered twice".to_owned());
            }
            let answer = self.answer_to(plugin, &request).await;
            connection.answer(stream, answer).await;
        }
    }

    async fn answer_to(&self, plugin: &Plugin, request: &Request) -> Result<Vec<u8>, Status> {
        if request.service != RUNTIME_SERVICE || request.method != "UpdateContainers" {
            return Err(unknown_method(request));
        }
        let decoded = nri::UpdateContainersRequest::decode(request.payload.as_slice());
        let asked = decoded.map_err(|_| refusal(INVALID_ARGUMENT, "cannot be decoded"))?;
        let failed = self
            .wished(Wishes {
                plugin: plugin.full_name(),
                updates: asked.update,
                evictions: asked.evict,
            })
            .await;
        match failed {
            Ok(failed) => Ok(nri::UpdateContainersResponse { failed }.encode_to_vec()),
            Err(error) => Err(refusal(UNKNOWN, &error)),
        }
    }

    /// Does what a plugin asked for in an answer, beside the call that asked.
    pub(super) fn carry_out(
        self: &Arc<Self>,
        wishes: Vec<(String, Vec<nri::ContainerUpdate>, Vec<nri::ContainerEviction>)>,
    ) {
        for (plugin, updates, evictions) in wishes {
            if updates.is_empty() && evictions.is_empty() {
                continue;
            }
            let (shared, wishes) = (Arc::clone(self), Wishes { plugin, updates, evictions });
            self.tracker.spawn(async move {
                // What failed is in the log.
                let _ = shared.wished(wishes).await;
            });
        }
    }

    /// Changes and stops containers as a plugin asks for. Returns the updates that failed, and an error
    /// when one of them may not.
    pub(super) async fn wished(&self, wishes: Wishes) -> Result<Vec<nri::ContainerUpdate>, String> {
        let Wishes { plugin, updates, evictions } = wishes;
        let Some(hooks) = self.hooks.get() else { return Ok(updates) };
        let mut failed = Vec::new();
        for eviction in evictions {
            let (container, reason) = (eviction.container_id, eviction.reason);
            info!(plugin, container, reason, "an NRI plugin evicts a container");
            if let Err(error) = (hooks.stop)(container.clone()).await {
                warn!(
                    plugin,
                    container, error, "cannot stop a container that an NRI plugin evicts"
                );
            }
        }
        let mut error = None;
        for update in updates {
            let asked = update.linux.as_ref().and_then(|linux| linux.resources.as_ref());
            let container = update.container_id.clone();
            let is_there = self.store.snapshot().container(&container).is_some();
            let (Some(asked), true) = (asked, is_there) else { continue };
            let done = match limits(asked) {
                Ok(limits) => (hooks.update)(container.clone(), limits).await,
                Err(error) => Err(error.to_string()),
            };
            let Err(cause) = done else { continue };
            warn!(
                plugin,
                container,
                error = cause,
                "cannot change the limits of a container as an NRI plugin asks for"
            );
            if !update.ignore_failure {
                error.get_or_insert(format!("container {container}: {cause}"));
            }
            failed.push(update);
        }
        error.map_or(Ok(failed), Err)
    }
}

/// Waits for the plugin's first call; it says index and name.
async fn registered(
    connection: &Connection,
    calls: &mut mpsc::Receiver<Incoming>,
) -> Result<(String, String), Closed> {
    loop {
        let call = tokio::select! {
            call = calls.recv() => call,
            reason = connection.closed() => return Err(reason),
        };
        let Some(Incoming { stream, request }) = call else {
            return Err(connection.closed().await);
        };
        if request.service != RUNTIME_SERVICE || request.method != "RegisterPlugin" {
            let early = refusal(FAILED_PRECONDITION, "the plugin is not registered yet");
            connection.answer(stream, Err(early)).await;
            continue;
        }
        let decoded = nri::RegisterPluginRequest::decode(request.payload.as_slice());
        let asked = decoded.map_err(|_| Closed::Garbage(super::mux::Garbage::Message))?;
        if let Err(reason) = check_name(&asked.plugin_idx, &asked.plugin_name) {
            connection.answer(stream, Err(refusal(INVALID_ARGUMENT, &reason))).await;
            return Err(Closed::Misbehaved(reason));
        }
        connection.answer(stream, Ok(Vec::new())).await;
        return Ok((asked.plugin_idx, asked.plugin_name));
    }
}

/// All that there is, in messages that are not too long. One at least, as it begins the events.
fn portions(
    pods: Vec<nri::PodSandbox>,
    containers: Vec<nri::Container>,
) -> Vec<nri::SynchronizeRequest> {
    let mut all = vec![nri::SynchronizeRequest::default()];
    let mut length = 0;
    let mut room_for = |all: &mut Vec<nri::SynchronizeRequest>, more: usize| {
        length += more + PER_ITEM;
        if length > PORTION && length > more + PER_ITEM {
            all.push(nri::SynchronizeRequest::default());
            length = more + PER_ITEM;
        }
    };
    for pod in pods {
        room_for(&mut all, pod.encoded_len());
        if let Some(last) = all.last_mut() {
            last.pods.push(pod);
        }
    }
    for container in containers {
        room_for(&mut all, container.encoded_len());
        if let Some(last) = all.last_mut() {
            last.containers.push(container);
        }
    }
    all
}

fn unknown_method(request: &Request) -> Status {
    refusal(UNIMPLEMENTED, &format!("{}/{} is not known", request.service, request.method))
}

fn refusal(code: i32, message: &str) -> Status {
    Status { code, message: message.to_owned() }
}

const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";
/// The release of NRI whose interface this is.
const NRI_VERSION: &str = "v0.12.0";
/// How long a plugin may take to take leave.
const GOODBYE: Duration = Duration::from_millis(500);
/// Bytes of a portion: less than a message may have, with room for what is around it.
const PORTION: usize = 3 << 20;
/// What an item needs besides itself, at most.
const PER_ITEM: usize = 8;

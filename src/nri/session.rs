//! The lifecycle of a plugin's connection: registration, configuration, synchronisation, events and updates.

use std::{mem, sync::Arc, time::Duration};

use prost::Message;
use tokio::{net::UnixStream, sync::mpsc, time};
use tracing::{info, warn};

use super::{
    connection::{CloseReason, Connection, Incoming},
    creation::Identity,
    launcher::InstalledPlugin,
    lifecycle::Stage,
    plugin::{ALL_EVENTS, Plugin, Refusal, check_name, label, sort},
    service::{LockedPlugins, Plugins, Shared},
    ttrpc::{
        FAILED_PRECONDITION, INVALID_ARGUMENT, Request, Status, UNIMPLEMENTED, UNKNOWN, decode,
    },
};
use crate::{
    model::record::{Process, SandboxState},
    store::{settings::SYNC_TIMEOUT, snapshot::Snapshot},
    translate::render,
    wire::nri,
};

impl Shared {
    pub(super) async fn session(
        self: Arc<Self>,
        socket: UnixStream,
        installed: Option<InstalledPlugin>,
    ) {
        let (connection, mut calls) = Connection::open(socket);
        let ended = tokio::select! {
            ended = self.serve_plugin(&connection, &mut calls, installed) => ended,
            () = self.shutdown.cancelled() => {
                // dockbridge ends the connection whatever the plugin answers to Shutdown.
                let _ = connection.call::<nri::Empty>("Shutdown", &nri::Empty {}, SHUTDOWN_TIMEOUT).await;
                CloseReason::Shutdown
            }
        };
        let reason = connection.close(ended);
        self.metrics.disconnected(label(&reason));
        // Dropping a `LockedPlugins` removes disconnected plugins, such as this plugin.
        drop(self.lock_plugins().await);
    }

    async fn serve_plugin(
        self: &Arc<Self>,
        connection: &Connection,
        calls: &mut mpsc::Receiver<Incoming>,
        installed: Option<InstalledPlugin>,
    ) -> CloseReason {
        let mut name = installed.as_ref().map(InstalledPlugin::full_name).unwrap_or_default();
        let plugin = match self.set_up(connection, calls, installed, &mut name).await {
            Ok(plugin) => plugin,
            Err(reason) => {
                let reason = connection.close(reason);
                // `dockbridge check` and a starting dockbridge connect to find out whether a process listens.
                if reason != CloseReason::ByPlugin || !name.is_empty() {
                    warn!(plugin = name, error = %reason, "cannot set up an NRI plugin; closing its connection");
                }
                return reason;
            }
        };
        info!(plugin = name, "NRI plugin connected and synchronised");
        let reason = self.serve_requests(&plugin, calls).await;
        let error = reason.to_string();
        match reason {
            CloseReason::ByPlugin => info!(plugin = name, "NRI plugin disconnected"),
            _ => warn!(plugin = name, error, "NRI plugin disconnected after a failure"),
        }
        reason
    }

    /// Sets `full_name` as soon as the plugin's name is known.
    async fn set_up(
        self: &Arc<Self>,
        connection: &Connection,
        calls: &mut mpsc::Receiver<Incoming>,
        installed: Option<InstalledPlugin>,
        full_name: &mut String,
    ) -> Result<Arc<Plugin>, CloseReason> {
        let limit = self.settings.registration_timeout;
        let registering = time::timeout(limit, registration(connection, calls)).await;
        let late = || CloseReason::Timeout { method: "RegisterPlugin", limit };
        let (index, name) = registering.map_err(|_| late())??;
        let (index, name, config) = match installed {
            // A plugin that dockbridge started has the name of its file, even if it registers another name.
            Some(InstalledPlugin { index, name, config }) => (index, name, config),
            None => (index, name, String::new()),
        };
        let (connection, metrics) = (connection.clone(), self.metrics.clone());
        let limit = self.settings.request_timeout;
        let mut plugin = Plugin { index, name, events: 0, connection, limit, metrics };
        *full_name = plugin.full_name();
        plugin.events = self.configure(&plugin, config).await?;
        let plugin = Arc::new(plugin);
        self.add(&plugin).await?;
        Ok(plugin)
    }

    /// Returns the events to which the plugin subscribes.
    async fn configure(&self, plugin: &Plugin, config: String) -> Result<i32, CloseReason> {
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let request = nri::ConfigureRequest {
            config,
            runtime_name: "dockbridge".to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            registration_timeout: millis(self.settings.registration_timeout),
            request_timeout: millis(plugin.limit),
            nri_version: NRI_VERSION.to_owned(),
        };
        let answer: nri::ConfigureResponse =
            call_required(plugin, "Configure", &request, plugin.limit).await?;
        // An answer without events means all events. dockbridge ignores unknown events of newer plugins.
        let events = if answer.events == 0 { ALL_EVENTS } else { answer.events };
        let unknown = events & !ALL_EVENTS;
        if unknown != 0 {
            let (plugin, events) = (plugin.full_name(), format!("{unknown:#x}"));
            info!(
                plugin,
                events,
                "an NRI plugin subscribed to events that dockbridge does not know; ignoring these events"
            );
        }
        Ok(events & ALL_EVENTS)
    }

    /// Sends the plugin the existing pods and containers, and then adds it to the connected plugins.
    async fn add(self: &Arc<Self>, plugin: &Arc<Plugin>) -> Result<(), CloseReason> {
        let _synchronizing = self.synchronizing.lock().await;
        let mut locked = self.lock_plugins().await;
        // Must precede the read of the store, or the plugin would miss what is created in between.
        self.creations.set_asking(true);
        let updates = locked.synchronise(plugin).await;
        if updates.is_ok() {
            locked.plugins.connected.push(Arc::clone(plugin));
            sort(&mut locked.plugins.connected);
        }
        drop(self.carry_out(plugin.full_name(), updates?, Vec::new()));
        Ok(())
    }

    async fn serve_requests(
        self: &Arc<Self>,
        plugin: &Plugin,
        calls: &mut mpsc::Receiver<Incoming>,
    ) -> CloseReason {
        let connection = &plugin.connection;
        loop {
            let Incoming { stream, request } = match next_call(connection, calls).await {
                Ok(call) => call,
                Err(reason) => return reason,
            };
            if request.service == RUNTIME_SERVICE && request.method == "RegisterPlugin" {
                return CloseReason::Violation("the plugin registered twice".to_owned());
            }
            let answer = self.answer_to(plugin, &request).await;
            connection.answer(stream, answer).await;
        }
    }

    async fn answer_to(
        self: &Arc<Self>,
        plugin: &Plugin,
        request: &Request,
    ) -> Result<Vec<u8>, Status> {
        if request.service != RUNTIME_SERVICE || request.method != "UpdateContainers" {
            let text = format!("method {}/{} is not known", request.service, request.method);
            return Err(refusal(UNIMPLEMENTED, &text));
        }
        let decoded = decode::<nri::UpdateContainersRequest>(&request.payload);
        let asked = decoded.map_err(|error| refusal(INVALID_ARGUMENT, &error.to_string()))?;
        let done = self.carry_out(plugin.full_name(), asked.update, asked.evict).await;
        match done.unwrap_or_else(|_| Err("dockbridge is shutting down".to_owned())) {
            Ok(failed) => Ok(nri::UpdateContainersResponse { failed }.encode_to_vec()),
            Err(error) => Err(refusal(UNKNOWN, &error)),
        }
    }
}

impl LockedPlugins<'_> {
    async fn synchronise(
        &mut self,
        plugin: &Plugin,
    ) -> Result<Vec<nri::ContainerUpdate>, CloseReason> {
        let synced = self.shared.store.synced(SYNC_TIMEOUT).await;
        let now = synced.map_err(|_| CloseReason::NotReady)?;
        // The other plugins first receive the pending events. The new plugin gets the current state instead.
        self.catch_up(&now).await;
        let (pods, containers) = self.existing(&now);
        let limit = self.shared.settings.registration_timeout.max(plugin.limit);
        let mut portions = portions(pods, containers).into_iter().peekable();
        while let Some(mut portion) = portions.next() {
            portion.more = portions.peek().is_some();
            let answer: nri::SynchronizeResponse =
                call_required(plugin, "Synchronize", &portion, limit).await?;
            if !portion.more {
                return Ok(answer.update);
            }
            if !answer.more || !answer.update.is_empty() {
                let reason = "the plugin does not support Synchronize in several messages, which this node needs";
                return Err(CloseReason::Violation(reason.to_owned()));
            }
        }
        Ok(Vec::new())
    }

    /// The pods and containers that a new plugin receives as existing ones. If other plugins are connected, a
    /// new plugin receives only what was reported to them.
    fn existing(&mut self, now: &Snapshot) -> (Vec<nri::PodSandbox>, Vec<nri::Container>) {
        let Plugins { connected, pods, containers } = &mut *self.plugins;
        let shared = self.shared;
        let (is_first, mut found) = (connected.is_empty(), (Vec::new(), Vec::new()));
        for record in now.sandboxes().iter().rev() {
            let is_known = pods.stage_of(record.id.as_str()).is_some();
            if !is_known && (!is_first || shared.creations.is_unasked(&Identity::pod(record))) {
                continue;
            }
            let pod = render::nri::pod(&shared.pod_view(now, record));
            if !fits(&pod.id, pod.encoded_len()) {
                continue;
            }
            if !is_known {
                let is_ready = record.state() == SandboxState::Ready;
                let stage = if is_ready { Stage::Running } else { Stage::Stopped };
                pods.add(record.id.as_str(), record, stage);
            }
            found.0.push(pod);
        }
        for record in now.containers().iter().rev() {
            let known = containers.stage_of(record.id.as_str());
            if known.is_none()
                && (!is_first || shared.creations.is_unasked(&Identity::container(record)))
            {
                continue;
            }
            let mut container = render::nri::container(&shared.container_view(now, record));
            if !fits(&container.id, container.encoded_len()) {
                continue;
            }
            match known {
                None => containers.add(record.id.as_str(), record, stage(&record.process)),
                Some(Stage::Stopped) => container.set_state(nri::ContainerState::ContainerStopped),
                // This container's end is reported after its start, so the new plugin receives it as created.
                Some(Stage::Starting) if record.process.has_ended() => {
                    container.set_state(nri::ContainerState::ContainerCreated);
                }
                Some(_) => {}
            }
            found.1.push(container);
        }
        found
    }
}

/// Calls a method of the plugin. The connection ends if the plugin does not answer or answers with an error.
async fn call_required<A: Message + Default>(
    plugin: &Plugin,
    method: &'static str,
    request: &impl Message,
    limit: Duration,
) -> Result<A, CloseReason> {
    match plugin.call(method, request, limit).await {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err(plugin.connection.closed().await),
        Err(Refusal { message, .. }) => {
            Err(CloseReason::Violation(format!("the plugin refused {method}: {message}")))
        }
    }
}

async fn next_call(
    connection: &Connection,
    calls: &mut mpsc::Receiver<Incoming>,
) -> Result<Incoming, CloseReason> {
    tokio::select! {
        Some(call) = calls.recv() => Ok(call),
        reason = connection.closed() => Err(reason),
    }
}

/// Waits for RegisterPlugin, and refuses calls before it. Returns the plugin's index and name.
async fn registration(
    connection: &Connection,
    calls: &mut mpsc::Receiver<Incoming>,
) -> Result<(String, String), CloseReason> {
    loop {
        let Incoming { stream, request } = next_call(connection, calls).await?;
        if request.service != RUNTIME_SERVICE || request.method != "RegisterPlugin" {
            let early = refusal(FAILED_PRECONDITION, "the plugin is not registered yet");
            connection.answer(stream, Err(early)).await;
            continue;
        }
        let asked: nri::RegisterPluginRequest = decode(&request.payload)?;
        if let Err(reason) = check_name(&asked.plugin_idx, &asked.plugin_name) {
            connection.answer(stream, Err(refusal(INVALID_ARGUMENT, &reason))).await;
            return Err(CloseReason::Violation(reason));
        }
        connection.answer(stream, Ok(Vec::new())).await;
        return Ok((asked.plugin_idx, asked.plugin_name));
    }
}

fn stage(process: &Process) -> Stage {
    if process.has_ended() {
        Stage::Stopped
    } else if process.is_running() {
        Stage::Running
    } else {
        Stage::Created
    }
}

/// Whether a pod or container fits into a message. A new plugin does not receive a pod or container that does not fit.
fn fits(id: &str, length: usize) -> bool {
    let fits = length <= PORTION;
    if !fits {
        warn!(
            id,
            length,
            "a pod or container is too large for the list that a new NRI plugin gets; leaving it out of the list"
        );
    }
    fits
}

/// Returns at least one message, because a plugin expects a Synchronize call before its first event.
fn portions(
    pods: Vec<nri::PodSandbox>,
    containers: Vec<nri::Container>,
) -> Vec<nri::SynchronizeRequest> {
    let (mut all, mut last, mut length) = (Vec::new(), nri::SynchronizeRequest::default(), 0);
    let mut make_room = |last: &mut nri::SynchronizeRequest, more: usize| {
        length += more + PER_ITEM;
        if length > PORTION && length > more + PER_ITEM {
            all.push(mem::take(last));
            length = more + PER_ITEM;
        }
    };
    for pod in pods {
        make_room(&mut last, pod.encoded_len());
        last.pods.push(pod);
    }
    for container in containers {
        make_room(&mut last, container.encoded_len());
        last.containers.push(container);
    }
    all.push(last);
    all
}

fn refusal(code: i32, message: &str) -> Status {
    Status { code, message: message.to_owned() }
}

const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";
/// The release of NRI whose interface dockbridge implements.
const NRI_VERSION: &str = "v0.12.0";
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum size of all items of a message in bytes, which leaves room for the other fields of the message.
const PORTION: usize = 3 << 20;
/// Maximum number of bytes that a list item needs in addition to its content.
const PER_ITEM: usize = 8;

//! Determines what a container of the engine is: a pause container, another container of a pod, or foreign.
//!
//! The type label says what the container is, and the document label has its configuration, except parts that the
//! inspect has. Without a usable document, dockbridge uses well-known labels and the name ([`adopted`]).
//!
//! If somebody starts a container by hand, its labels may come from the image, and a document decides where
//! dockbridge writes logs as root. So a container's labels count only together with facts that an image cannot set,
//! such as [`is_made_here`]. The document of a pod's container, but not of its pause container, must name the same pod
//! as the sandbox label.

use std::{net::IpAddr, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::{adopted, event};
use crate::{
    model::{
        container::{ContainerMetadata, ContainerSpec, variable},
        document::{ContainerDocument, SandboxDocument, Unread, VERSION},
        id::{ContainerId, ImageId, SandboxId},
        label,
        name::{bare, sandbox_name},
        record::{ContainerRecord, ExitReason, ForeignContainer, Observed, Process, SandboxRecord},
        time::Nanos,
    },
    translate::limits,
    wire::docker::{ContainerInspect, InspectNetwork, InspectState},
};

/// Determines what an inspected container is.
pub fn observe(inspect: &ContainerInspect) -> Observed {
    let kind = inspect.config.labels.get(label::TYPE).map(String::as_str);
    let observed = match kind {
        Some(label::TYPE_SANDBOX) => sandbox(inspect),
        Some(label::TYPE_CONTAINER) => container(inspect),
        _ => None,
    };
    observed.unwrap_or_else(|| foreign(inspect))
}

pub(super) fn foreign(inspect: &ContainerInspect) -> Observed {
    let owner = joined(&inspect.host_config.network_mode);
    Observed::Foreign(ForeignContainer {
        image: ImageId::try_from(inspect.image.as_str()).ok(),
        joined: owner.and_then(|id| SandboxId::try_from(id).ok()),
    })
}

/// Whether the container's name agrees with its document.
pub(super) fn has_its_name(observed: &Observed) -> bool {
    match observed {
        Observed::Sandbox(record) => {
            let rest = record.name.strip_prefix(&sandbox_name(&record.document.spec.metadata));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        }
        Observed::Container(record) => {
            let ContainerMetadata { name, attempt } = &record.document.spec.metadata;
            is_named(&record.name, name, *attempt)
        }
        Observed::Foreign(_) => false,
    }
}

/// Whether `Init` shows that dockbridge created the container. Every version of dockbridge sets `Init` to false
/// for the containers of pods. `docker run` leaves `Init` unset by default, and `docker commit`, `docker rename` and
/// `docker update` cannot set it.
fn is_made_here(inspect: &ContainerInspect) -> bool {
    inspect.host_config.init == Some(false)
}

/// Whether the name begins and ends as in [`crate::model::name`]: parts in the middle may contain underscores.
fn is_named(name: &str, container: &str, attempt: u32) -> bool {
    let start = format!("k8s_{container}_");
    let Some(rest) = name.strip_prefix(&start) else { return false };
    let mut fields = rest.rsplit('_');
    let attempt = attempt.to_string();
    let (last, before) = (fields.next(), fields.next());
    last == Some(&attempt) || before == Some(&attempt)
}

/// The container whose namespace a network or IPC mode joins, if it joins one.
fn joined(mode: &str) -> Option<&str> {
    mode.strip_prefix("container:")
}

fn sandbox(inspect: &ContainerInspect) -> Option<Observed> {
    let created_at = instant(&inspect.created);
    let ours = document(inspect, label::SANDBOX_DOCUMENT)
        .filter(|document: &SandboxDocument| document.version <= VERSION)
        .filter(|document| !document.spec.metadata.name.is_empty());
    let is_adopted = ours.is_none();
    let observed = Observed::Sandbox(SandboxRecord {
        id: SandboxId::try_from(inspect.id.as_str()).ok()?,
        name: bare(&inspect.name).to_owned(),
        document: Arc::new(ours.or_else(|| adopted::sandbox(inspect))?),
        created_at,
        process: Some(process(&inspect.state, created_at)),
        engine_addresses: addresses(&inspect.network_settings),
        attachment: None,
    });
    let is_theirs =
        || inspect.host_config.cpu_shares == PAUSE_CPU_SHARES || has_its_name(&observed);
    (is_made_here(inspect) || is_adopted && is_theirs()).then_some(observed)
}

fn container(inspect: &ContainerInspect) -> Option<Observed> {
    let created_at = instant(&inspect.created);
    let labelled = inspect.config.labels.get(label::SANDBOX_ID).map(String::as_str);
    let ours = document(inspect, label::CONTAINER_DOCUMENT)
        .filter(|document: &ContainerDocument| document.version <= VERSION)
        .filter(|document| !document.spec.metadata.name.is_empty())
        .filter(|document| labelled == Some(document.sandbox.as_str()))
        .map(|document| read_back(document, inspect));
    let is_adopted = ours.is_none();
    let document = ours.or_else(|| adopted::container(inspect))?;
    let pod = Some(document.sandbox.to_string());
    let joins = |mode: &str| joined(mode) == pod.as_deref();
    let observed = Observed::Container(ContainerRecord {
        id: ContainerId::try_from(inspect.id.as_str()).ok()?,
        name: bare(&inspect.name).to_owned(),
        document: Arc::new(document),
        created_at,
        process: process(&inspect.state, created_at),
        stop_signal: Some(inspect.config.stop_signal.clone()).filter(|text| !text.is_empty()),
        hides_signals: inspect.config.labels.contains_key(event::SIGNAL),
        engine_log: absolute(Some(&inspect.log_path)),
        log_driver: inspect.host_config.log_config.driver.clone(),
        writable_layer: absolute(inspect.graph_driver.data.get("UpperDir")),
        limits: limits::docker::observe(&inspect.host_config),
        command_line: [&inspect.config.entrypoint[..], &inspect.config.cmd].concat(),
    });
    let host = &inspect.host_config;
    let is_theirs = || joins(&host.ipc_mode) || has_its_name(&observed);
    let counts = joins(&host.network_mode) && (is_made_here(inspect) || is_adopted && is_theirs());
    counts.then_some(observed)
}

fn absolute(path: Option<&String>) -> Option<PathBuf> {
    path.map(PathBuf::from).filter(|path| path.is_absolute())
}

fn document<T: DeserializeOwned>(inspect: &ContainerInspect, key: &str) -> Option<T> {
    serde_json::from_str(inspect.config.labels.get(key)?).ok()
}

/// Addresses on the engine's own networks, IPv4 first.
fn addresses(network: &InspectNetwork) -> Vec<IpAddr> {
    let points = network.networks.values().flatten();
    let texts = points.flat_map(|point| [&point.ip_address, &point.global_ipv6_address]);
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in texts.filter_map(|text| text.parse().ok()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses
}

/// Adds the inspect's data to a document, or nothing if some data are missing, as in Docker's list.
fn read_back(mut document: ContainerDocument, inspect: &ContainerInspect) -> ContainerDocument {
    if let Some(unread) = document.unread
        && let Some(spec) = whole(&document.spec, unread, inspect)
    {
        (document.spec, document.unread) = (spec, None);
    }
    document
}

fn whole(
    stored: &ContainerSpec,
    unread: Unread,
    inspect: &ContainerInspect,
) -> Option<ContainerSpec> {
    let (config, host) = (&inspect.config, &inspect.host_config);
    let mut spec = stored.clone();
    // The inspect has the requested entrypoint and arguments, or those of the image if the request had none.
    spec.command = match &config.entrypoint[..] {
        // Docker drops an entrypoint that is only an empty text, and runs the arguments.
        [] if unread.command == 1 && !config.cmd.is_empty() => vec![String::new()],
        entrypoint => entrypoint.get(..unread.command)?.to_vec(),
    };
    spec.args = config.cmd.get(..unread.args)?.to_vec();
    // In the inspect, the requested variables come before those of the image.
    let envs = config.env.get(..unread.envs)?.iter().map(|it| variable(it));
    spec.envs = envs.collect::<Option<_>>()?;
    let requested = host.mounts.get(..stored.mounts.len())?;
    for (mount, requested) in spec.mounts.iter_mut().zip(requested) {
        mount.container_path.clone_from(&requested.target);
        if mount.image.is_none() {
            mount.host_path.clone_from(&requested.source);
        }
    }
    Some(spec)
}

/// The process of a container that was created at `created_at`: the table of CRI states and reasons.
///
/// ```text
/// running, paused, restarting ─▶ Running
/// started and ended           ─▶ Exited: OOMKilled | Completed | Error
/// start failed, or removing   ─▶ Exited: ContainerCannotRun, all times = creation
/// never started               ─▶ Created
/// none of these               ─▶ Unknown
/// ```
pub(super) fn process(state: &InspectState, created_at: Nanos) -> Process {
    let (started_at, finished_at) = (instant(&state.started_at), instant(&state.finished_at));
    if state.running || matches!(state.status.as_str(), "running" | "paused" | "restarting") {
        return Process::Running { pid: u32::try_from(state.pid).unwrap_or(0), started_at };
    }
    if finished_at.is_set() && started_at.is_set() {
        return ended(state, started_at, finished_at);
    }
    // After a failed start, Docker leaves the container in "created", with an exit code such as 127.
    if state.exit_code != 0 || finished_at.is_set() {
        return never_ran(state, created_at);
    }
    match state.status.as_str() {
        "created" => Process::Created,
        "exited" | "dead" | "removing" => never_ran(state, created_at),
        _ => Process::Unknown,
    }
}

fn ended(state: &InspectState, started_at: Nanos, finished_at: Nanos) -> Process {
    let reason = match state.exit_code {
        // Docker also sets `oom_killed` if only a child process was killed, so any exit code is possible.
        _ if state.oom_killed => ExitReason::OomKilled,
        0 => ExitReason::Completed,
        _ => ExitReason::Error,
    };
    // Docker records the start after the OCI runtime has returned, so the recorded end may be earlier.
    exited(state, reason, started_at, finished_at.max(started_at))
}

fn never_ran(state: &InspectState, created_at: Nanos) -> Process {
    exited(state, ExitReason::CannotRun, created_at, created_at)
}

fn exited(
    state: &InspectState,
    reason: ExitReason,
    started_at: Nanos,
    finished_at: Nanos,
) -> Process {
    let exit_code = i32::try_from(state.exit_code).unwrap_or(i32::MAX);
    let message = state.error.clone();
    Process::Exited { started_at, finished_at, exit_code, reason, message }
}

/// Parses an RFC 3339 time. A time before 1970, such as Docker's zero time, and an unreadable time become "unset".
pub(super) fn instant(text: &str) -> Nanos {
    text.parse::<Timestamp>()
        .ok()
        .and_then(|time| i64::try_from(time.as_nanosecond()).ok())
        .filter(|nanos| *nanos > 0)
        .map_or(Nanos::UNSET, Nanos)
}

/// CPU shares of the pause containers of dockershim and cri-dockerd.
const PAUSE_CPU_SHARES: i64 = 2;

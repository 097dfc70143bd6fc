//! Renders containers as CRI messages.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{sandbox, time, verbose};
use crate::{
    model::{
        accounts::ProcessUser,
        container::{ContainerMetadata, ContainerSpec, Mount, Propagation, log_path},
        document::ContainerDocument,
        record::{ContainerRecord, ExitReason, ImageRecord, ListedState, Process},
        reference::ImageReference,
        resources::{Resources, first_set},
        time::Nanos,
    },
    translate::limits,
    wire::cri::{self, Signal},
};

/// A container record, and further data that ContainerStatus needs.
pub struct ContainerView<'a> {
    pub record: &'a ContainerRecord,
    /// The image from which the container was created. `None` if the store does not have this image.
    pub image: Option<&'a ImageRecord>,
    /// The limits that the status shows, if any.
    pub limits: Option<Resources>,
}

/// Renders a ContainerStatus.
pub fn status(view: &ContainerView<'_>) -> cri::ContainerStatus {
    let ContainerView { record, image, limits } = view;
    let spec = &record.document.spec;
    let (finished_at, exit_code, reason, end) = ending(record);
    cri::ContainerStatus {
        id: record.id.to_string(),
        metadata: Some(metadata(&spec.metadata)),
        state: state(&record.process).into(),
        created_at: time::created_at(record.created_at),
        started_at: started_at(record).0,
        finished_at: finished_at.0,
        exit_code,
        image: Some(image_spec(spec, image_name(record, *image))),
        image_ref: first_set(&record.document.image_ref, record.document.image_id.as_str()),
        reason: reason.to_owned(),
        message: message(record, end).to_owned(),
        labels: spec.labels.clone(),
        annotations: spec.annotations.clone(),
        mounts: mounts(&record.document),
        log_path: log_path(spec),
        resources: limits.as_ref().map(limits::cri::rendered),
        image_id: record.document.image_id.to_string(),
        user: record.document.user.as_ref().map(user),
        stop_signal: stop_signal(record.stop_signal.as_deref()).into(),
    }
}

/// Renders an item of ListContainers with the requested image name. `image_ref` is the image id: kubelet up
/// to 1.28, which does not know `image_id`, compares it with the ids of images to find images in use.
pub fn item(record: &ContainerRecord) -> cri::Container {
    let document = &record.document;
    let spec = &document.spec;
    cri::Container {
        id: record.id.to_string(),
        pod_sandbox_id: document.sandbox.to_string(),
        metadata: Some(metadata(&spec.metadata)),
        image: Some(image_spec(spec, first_set(&spec.image, document.image_id.as_str()))),
        image_ref: document.image_id.to_string(),
        state: state(&record.process).into(),
        created_at: time::created_at(record.created_at),
        labels: spec.labels.clone(),
        annotations: spec.annotations.clone(),
        image_id: document.image_id.to_string(),
    }
}

/// The additional content of a verbose status. Tools read `sandboxID` and `pid` in it.
pub fn info(record: &ContainerRecord) -> BTreeMap<String, String> {
    let document = &record.document;
    verbose::info(&json!({
        "sandboxID": document.sandbox,
        "pid": record.process.pid().unwrap_or(0),
        "name": record.name,
        "imageID": document.image_id,
        "engineLog": record.engine_log,
        "config": config(document),
    }))
}

/// The container's specification, without fields that dockbridge does not know yet.
fn config(document: &ContainerDocument) -> Value {
    let mut config = verbose::json_or_null(&document.spec);
    if let (Some(_), Value::Object(fields)) = (document.unread, &mut config) {
        fields.retain(|field, _| !UNREAD.contains(&field.as_str()));
        fields.insert("unknown".to_owned(), json!(UNREAD));
    }
    config
}

/// How a container ended: time, exit code, reason and message, which are unset before its end.
fn ending(record: &ContainerRecord) -> (Nanos, i32, &'static str, &str) {
    match &record.process {
        Process::Exited { finished_at, exit_code, reason, message, .. } => {
            (*finished_at, *exit_code, reason.as_str(), message)
        }
        Process::Listed(ListedState::Exited { exit_code: Some(0) }) => {
            (record.created_at, 0, ExitReason::Completed.as_str(), "")
        }
        Process::Listed(ListedState::Exited { exit_code }) => {
            let code = exit_code.unwrap_or(UNKNOWN_EXIT_CODE);
            (record.created_at, code, ExitReason::Error.as_str(), "")
        }
        Process::Created | Process::Running { .. } | Process::Listed(_) | Process::Unknown => {
            (Nanos::UNSET, 0, "", "")
        }
    }
}

/// The message of a status: the engine's message about the end, or which data the status lacks.
fn message<'a>(record: &ContainerRecord, of_end: &'a str) -> &'a str {
    match (record.process.is_listed(), record.document.unread) {
        (true, None) => NOT_INSPECTED,
        (true, Some(_)) => NOT_INSPECTED_WITHOUT_MOUNTS,
        (false, Some(_)) if of_end.is_empty() => WITHOUT_MOUNTS,
        (false, _) => of_end,
    }
}

/// The start time; for a started container known only from the engine's list, the creation time.
fn started_at(record: &ContainerRecord) -> Nanos {
    match record.process {
        Process::Running { started_at, .. } | Process::Exited { started_at, .. } => started_at,
        Process::Listed(ListedState::Running | ListedState::Exited { .. }) => record.created_at,
        Process::Created | Process::Listed(ListedState::Created) | Process::Unknown => Nanos::UNSET,
    }
}

pub(super) const fn state(process: &Process) -> cri::ContainerState {
    use ListedState::{Created, Exited, Running};
    match process {
        Process::Created | Process::Listed(Created) => cri::ContainerState::ContainerCreated,
        Process::Running { .. } | Process::Listed(Running) => cri::ContainerState::ContainerRunning,
        Process::Exited { .. } | Process::Listed(Exited { .. }) => {
            cri::ContainerState::ContainerExited
        }
        Process::Unknown => cri::ContainerState::ContainerUnknown,
    }
}

pub(super) fn metadata(given: &ContainerMetadata) -> cri::ContainerMetadata {
    cri::ContainerMetadata { name: given.name.clone(), attempt: given.attempt }
}

fn image_spec(spec: &ContainerSpec, image: String) -> cri::ImageSpec {
    cri::ImageSpec {
        image,
        user_specified_image: spec.user_image.clone(),
        ..cri::ImageSpec::default()
    }
}

/// The name of the container's image: the requested tag if the image still has it, or the image's first name, or the
/// requested name, or the image's id.
fn image_name(record: &ContainerRecord, image: Option<&ImageRecord>) -> String {
    let spec = &record.document.spec;
    let requested = [&spec.user_image, &spec.image];
    let names = image.map_or(&[] as &[String], |image| &image.repo_tags);
    let tag = names
        .iter()
        .find(|name| requested.iter().any(|text| same_image(text, name)))
        .or_else(|| names.first())
        .or_else(|| image.and_then(|image| image.repo_digests.first()));
    tag.cloned().unwrap_or_else(|| first_set(&spec.image, record.document.image_id.as_str()))
}

fn same_image(one: &str, other: &str) -> bool {
    let read = |text: &str| ImageReference::parse(text).map(ImageReference::with_default_tag);
    matches!((read(one), read(other)), (Ok(one), Ok(other)) if one == other)
}

fn user(process: &ProcessUser) -> cri::ContainerUser {
    let linux = cri::LinuxContainerUser {
        uid: process.uid.into(),
        gid: process.gid.into(),
        supplemental_groups: process.groups.iter().copied().map(i64::from).collect(),
    };
    cri::ContainerUser { linux: Some(linux) }
}

fn mounts(document: &ContainerDocument) -> Vec<cri::Mount> {
    if document.unread.is_some() {
        return Vec::new();
    }
    let mut mounted = document.image_volumes.iter();
    let mut one = |given: &Mount| {
        let image = given.image.as_ref().and_then(|_| mounted.next());
        mount(given, image.map(|mounted| mounted.image.as_str()))
    };
    document.spec.mounts.iter().map(&mut one).collect()
}

fn mount(given: &Mount, image: Option<&str>) -> cri::Mount {
    cri::Mount {
        container_path: given.container_path.clone(),
        host_path: given.host_path.clone(),
        readonly: given.readonly,
        selinux_relabel: given.selinux_relabel,
        propagation: propagation(given.propagation).into(),
        recursive_read_only: given.recursive_read_only,
        // `image` and `image_ref` are the same, because PullImage also answers with the id.
        image: image.or(given.image.as_deref()).map(|image| cri::ImageSpec {
            image: image.to_owned(),
            image_ref: image.to_owned(),
            ..cri::ImageSpec::default()
        }),
        image_sub_path: given.image_sub_path.clone(),
        mount_options: given.options.clone(),
        uid_mappings: given.id_mappings.iter().map(|ids| sandbox::id_range(ids.uids)).collect(),
        gid_mappings: given.id_mappings.iter().map(|ids| sandbox::id_range(ids.gids)).collect(),
    }
}

fn propagation(given: Propagation) -> cri::MountPropagation {
    match given {
        Propagation::Private => cri::MountPropagation::PropagationPrivate,
        Propagation::HostToContainer => cri::MountPropagation::PropagationHostToContainer,
        Propagation::Bidirectional => cri::MountPropagation::PropagationBidirectional,
    }
}

/// The stop signal. `None` means the engine's default, SIGTERM. An unknown signal becomes "runtime default".
pub(super) fn stop_signal(spelling: Option<&str>) -> Signal {
    let Some(spelling) = spelling.filter(|text| !text.is_empty()) else { return Signal::Sigterm };
    signal_named(spelling).or_else(|| signal_numbered(spelling)).unwrap_or(Signal::RuntimeDefault)
}

/// The signal with this name, in spellings like `SIGTERM`, `term`, `RTMIN+3` or `SIGRTMAX-1`.
fn signal_named(spelling: &str) -> Option<Signal> {
    let upper = spelling.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let name = bare.replace('+', "PLUS").replace('-', "MINUS");
    Signal::from_str_name(&format!("SIGNAL_SIG{name}"))
}

/// The signal with this Linux number. Dockerfiles may name a signal by its number.
fn signal_numbered(spelling: &str) -> Option<Signal> {
    let number: usize = spelling.parse().ok()?;
    let name = match number {
        1..=31 => (*SIGNALS.get(number - 1)?).to_owned(),
        34 => "RTMIN".to_owned(),
        35..=49 => format!("RTMIN+{}", number - 34),
        50..=63 => format!("RTMAX-{}", 64 - number),
        64 => "RTMAX".to_owned(),
        _ => return None,
    };
    signal_named(&name)
}

/// The exit code that kubelet uses if it does not know the exit code: 128 plus the number of SIGKILL.
const UNKNOWN_EXIT_CODE: i32 = 137;
const NOT_INSPECTED: &str = "docker inspect of this container is pending or failed; the data is from docker's list of containers, with the creation time in place of start and end times";
const NOT_INSPECTED_WITHOUT_MOUNTS: &str = "docker inspect of this container is pending or failed; the data is from docker's list of containers, without the mounts and with the creation time in place of start and end times";
const WITHOUT_MOUNTS: &str = "docker inspect of this container lacks its mounts, command or environment; the container is shown without any of them";
/// The fields of a specification that dockbridge reads only from an inspect.
const UNREAD: [&str; 4] = ["command", "args", "envs", "mounts"];

/// Names of the signals 1 to 31, as x86-64 and arm64 number them.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

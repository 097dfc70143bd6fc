//! A workload container: it joins the namespaces of its pod's pause.

use std::path::PathBuf;

use serde_json::Value;

use super::{
    cgroup_parent,
    defaults::{SHM_SIZE, annotations, never_restart, no_healthcheck},
    devices,
    error::PlanError,
    express, identity, image,
    input::ContainerInput,
    labels, mounts, name, oci_edits, oci_runtime, read_only, runtime_handler, security_options,
};
use crate::{
    model::{
        container::{ContainerLogFormat, ContainerSpec, variable},
        document::{ContainerDocument, VERSION},
        engine::EngineInfo,
        name::container_name,
        sandbox::{PidMode, SandboxSpec},
        volume::ImageVolume,
    },
    translate::limits,
    wire::docker::{ContainerCreateBody, DeviceRequest, HostConfig, HostConfigLogConfig},
};

/// What to ask of the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerPlan {
    pub name: String,
    /// The document for its label.
    pub document: ContainerDocument,
    /// Host paths to create as directories (mode 0755) where nothing is there yet, before the
    /// create. Empty for engines that do so themselves.
    pub directories: Vec<PathBuf>,
    pub body: ContainerCreateBody,
}

impl ContainerPlan {
    /// The plan with the daemon's log mode; none if it states no mode. A daemon with the default log
    /// option `max-buffer-size` refuses every container whose mode is another than `non-blocking`, and
    /// no value of a container's own takes that option away.
    pub fn with_daemons_log_mode(&self) -> Option<Self> {
        let mut plan = self.clone();
        let host = plan.body.host_config.as_mut()?;
        host.log_config.as_mut()?.config.as_mut()?.remove(BLOCKING.0)?;
        Some(plan)
    }
}

/// Plans a workload.
///
/// # Errors
/// When the engine cannot express the request, or an input that the spec needs (a profile's text, a
/// target container) is missing.
pub fn plan(spec: ContainerSpec, input: &ContainerInput<'_>) -> Result<ContainerPlan, PlanError> {
    let pod = &input.sandbox.document.spec.metadata;
    let name = name::checked(container_name(&spec.metadata, pod))?;
    let image_ref = image::reference(&spec, input.image);
    let identity = identity::resolve(&spec.security.identity, &input.image.user, input.accounts)?;
    let handler = &input.sandbox.document.spec.handler;
    let runtime = input.engine.edits_runtime(handler);
    let device_groups = express::groups(input.cdi.unwrap_or_default());
    let volumes = oci_edits::volumes(&spec, input.image);
    let mut document = ContainerDocument {
        version: VERSION,
        spec,
        volumes,
        sandbox: input.sandbox.id.clone(),
        image_id: input.image.id.clone(),
        image_ref,
        user: identity.process.map(|user| user.with_groups(&device_groups)),
        image_volumes: input.image_volumes.iter().map(ImageVolume::mounted).collect(),
        is_adjustable: input.is_adjustable && runtime.is_ok(),
        edits: Vec::new(),
        cdi: Value::Null,
        unread: None,
    };
    read_only::check(&document.spec.mounts, handler, input.engine)?;
    oci_runtime::check_container(&document.spec, &input.sandbox.document, input.engine)?;
    check_privileges(&document.spec, &input.sandbox.document.spec)?;
    let mounts = mounts::mounts(&document.spec.mounts, input)?;
    let mut host = host_config(&document.spec, input)?;
    host.mounts = Some(mounts.mounts).filter(|mounts| !mounts.is_empty());
    let mut body = body(&document.spec, input);
    (body.user, host.group_add) = (identity.user, identity.groups);
    document.edits = match input.cdi {
        Some(edits) => express::express((&mut body, &mut host), edits, input.engine, handler)?,
        None => {
            name_cdi_devices(&mut host, &document.spec, input.engine)?;
            Vec::new()
        }
    };
    body.labels = Some(labels::container(&document, pod, input.image)?);
    // As it will be read back: a variable of a CDI device replaces the caller's.
    document.spec.envs = body
        .env
        .iter()
        .flatten()
        .map_while(|it| variable(it))
        .take(document.spec.envs.len())
        .collect();
    let limits = &document.spec.resources;
    // Where it is pinned, and what plugins want, is known later.
    let edits = oci_edits::container(&document, limits, input.engine, None, &[]);
    // Without it, only limits are left, which are set after the start.
    let is_edited = document.is_adjustable || !edits.is_empty();
    if is_edited && runtime.is_ok() {
        oci_runtime::use_ours(&mut host);
    }
    body.host_config = Some(host);
    Ok(ContainerPlan { name, document, directories: mounts.directories, body })
}

/// An engine that reads the specifications of CDI devices itself gets their names.
fn name_cdi_devices(
    host: &mut HostConfig,
    spec: &ContainerSpec,
    engine: &EngineInfo,
) -> Result<(), PlanError> {
    let Some(first) = spec.cdi_devices.first() else { return Ok(()) };
    if engine.cdi_spec_dirs.is_empty() {
        return Err(PlanError::NoCdi { device: first.clone() });
    }
    host.device_requests = Some(vec![DeviceRequest {
        driver: Some("cdi".to_owned()),
        device_ids: Some(spec.cdi_devices.clone()),
        ..DeviceRequest::default()
    }]);
    Ok(())
}

/// Refuses what the sandbox was not declared to have. containerd refuses the first, and never gives
/// the second.
fn check_privileges(spec: &ContainerSpec, pod: &SandboxSpec) -> Result<(), PlanError> {
    let refused = |field, sandbox| Err(PlanError::BeyondSandbox { field, sandbox });
    if spec.security.privileged && !pod.security.privileged && !pod.security.unknown {
        return refused("privileged", "was declared without privileged containers");
    }
    if spec.pid == PidMode::Node && pod.namespaces.pid != PidMode::Node {
        return refused("namespace_options.pid", "does not share the host's processes");
    }
    Ok(())
}

fn body(spec: &ContainerSpec, input: &ContainerInput<'_>) -> ContainerCreateBody {
    let listed = |items: &[String]| (!items.is_empty()).then(|| items.to_vec());
    let env: Vec<String> = spec.envs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    ContainerCreateBody {
        // By id: a tag may have moved since the caller resolved it.
        image: Some(input.image.id.to_string()),
        entrypoint: listed(&spec.command),
        cmd: listed(&spec.args),
        env: listed(&env),
        working_dir: Some(spec.working_dir.clone()).filter(|dir| !dir.is_empty()),
        open_stdin: Some(spec.stdin),
        stdin_once: Some(spec.stdin_once),
        tty: Some(spec.tty),
        attach_stdin: Some(false),
        attach_stdout: Some(false),
        attach_stderr: Some(false),
        healthcheck: Some(no_healthcheck()),
        stop_signal: spec.stop_signal.clone(),
        ..ContainerCreateBody::default()
    }
}

fn host_config(spec: &ContainerSpec, input: &ContainerInput<'_>) -> Result<HostConfig, PlanError> {
    let pod = &input.sandbox.document;
    let pause = format!("container:{}", input.sandbox.id);
    let mut host = HostConfig {
        annotations: annotations(pod, input.engine),
        cgroup_parent: cgroup_parent::cgroup_parent(
            &pod.spec.cgroup_parent,
            input.engine.cgroup_driver,
        )?,
        init: Some(false),
        ipc_mode: Some(pause.clone()),
        log_config: Some(log_config(input.log_format)),
        pid_mode: pid_mode(spec, input)?,
        network_mode: Some(pause),
        restart_policy: Some(never_restart()),
        runtime: runtime_handler::engine_runtime(&pod.spec.handler, input.engine)?,
        shm_size: Some(SHM_SIZE),
        uts_mode: pod.spec.namespaces.host_network.then(|| "host".to_owned()),
        ..HostConfig::default()
    };
    limits::docker::create(&mut host, &spec.resources, input.oom_floor)?;
    // What cannot be set later is refused now.
    limits::cgroup_files::cgroup_files(&spec.resources, input.engine)?;
    devices::add(&mut host, spec);
    security_options::confine_container(&mut host, &spec.security, input.engine, input.seccomp)?;
    Ok(host)
}

fn pid_mode(spec: &ContainerSpec, input: &ContainerInput<'_>) -> Result<Option<String>, PlanError> {
    Ok(match spec.pid {
        PidMode::Pod => Some(format!("container:{}", input.sandbox.id)),
        PidMode::Container => None,
        PidMode::Node => Some("host".to_owned()),
        PidMode::Target => {
            let target = input.pid_target.ok_or(PlanError::NoPidTarget)?;
            Some(format!("container:{target}"))
        }
    })
}

/// The engine's own log files. Everything that decides where a line goes is stated, because the daemon
/// fills in its own options of the same driver: another driver would keep the log from us,
/// `non-blocking` mode drops lines, and `compress` turns files we may still have to read into others.
/// Attributes would repeat labels and variables in every line, and the CRI's form has no place for
/// them.
fn log_config(format: ContainerLogFormat) -> HostConfigLogConfig {
    let (size, files) = match format {
        ContainerLogFormat::Cri => CRI_ROTATION,
        ContainerLogFormat::Docker => DOCKER_ROTATION,
    };
    let rotation = [("max-size", size), ("max-file", files), ("compress", "false"), BLOCKING];
    let attributes = ATTRIBUTES.iter().filter(|_| format == ContainerLogFormat::Cri);
    let options = rotation.into_iter().chain(attributes.map(|key| (*key, "")));
    let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
    HostConfigLogConfig { typ: Some("json-file".to_owned()), config: Some(options.collect()) }
}

/// A container that writes faster than the engine waits, and loses nothing.
const BLOCKING: (&str, &str) = ("mode", "blocking");
/// Options that add something to each line.
const ATTRIBUTES: [&str; 5] = ["labels", "labels-regex", "env", "env-regex", "tag"];
/// Size of a file and number of files, where we read them: together what the reader may lag behind,
/// also after a long absence, before a line is lost.
const CRI_ROTATION: (&str, &str) = ("16m", "5");
/// The same, where the kubelet reads the newest file itself. A kubelet that finds more than 10 MiB
/// would rename the symlink and ask for a new one, over and over, so it must never find that much.
const DOCKER_ROTATION: (&str, &str) = ("8m", "5");

//! Plans a container of a pod. The container joins the network and IPC namespaces of the pod's pause container, and
//! the pause container's PID namespace if the request says so.

use std::path::PathBuf;

use super::{
    defaults::{SHM_SIZE, annotations, never_restart, no_healthcheck, none_if_empty},
    identity,
    input::ContainerInput,
    labels, mounts, name, oci_edits, oci_runtime, read_only, request_fields, sandbox, seccomp,
    security_options,
};
use crate::{
    error::Failure,
    model::{
        container::{ContainerLogFormat, ContainerSpec, variable},
        document::ContainerDocument,
        engine::EngineInfo,
        name::container_name,
        record::ImageRecord,
        reference::{self, ImageReference},
        sandbox::{PidMode, SandboxSpec},
        volume::ImageVolume,
    },
    translate::limits,
    wire::docker::{ContainerCreateBody, DeviceRequest, HostConfig, HostConfigLogConfig},
};

/// The request to the engine that creates a container of a pod, and the directories that it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerPlan {
    pub name: String,
    pub document: ContainerDocument,
    /// Host paths to create as directories (0755) if they are missing; empty if the engine creates missing paths.
    pub directories: Vec<PathBuf>,
    pub body: ContainerCreateBody,
}

impl ContainerPlan {
    /// The plan without a log mode, so that Docker uses its configured mode. `None` if this plan has no log mode.
    /// Docker refuses the mode `blocking` if its configuration adds the log option `max-buffer-size` to the container.
    pub fn with_daemons_log_mode(&self) -> Option<Self> {
        let mut plan = self.clone();
        let host = plan.body.host_config.as_mut()?;
        host.log_config.as_mut()?.config.as_mut()?.remove(BLOCKING.0)?;
        Some(plan)
    }
}

/// Plans a container of a pod.
///
/// # Errors
/// The request is invalid, the engine cannot fulfil it, or an input such as the text of a seccomp profile is missing.
pub fn plan(spec: ContainerSpec, input: &ContainerInput<'_>) -> Result<ContainerPlan, Failure> {
    let pod = &input.sandbox.document.spec.metadata;
    let name = name::checked(container_name(&spec.metadata, pod))?;
    let image_ref = image_reference(&spec, input.image);
    let identity = identity::resolve(&spec.security.identity, &input.image.user, input.accounts)?;
    let handler = &input.sandbox.document.spec.handler;
    let runtime = input.engine.edits_runtime(handler);
    let device_groups = request_fields::groups(input.cdi.unwrap_or_default());
    let volumes = oci_edits::volumes(&spec, input.image);
    let mut document = ContainerDocument {
        volumes,
        image_ref,
        user: identity.process.map(|user| user.with_groups(&device_groups)),
        image_volumes: input.image_volumes.iter().map(ImageVolume::mounted).collect(),
        is_adjustable: input.is_adjustable && runtime.is_ok(),
        restore: input.restore.cloned(),
        ..ContainerDocument::new(spec, input.sandbox.id.clone(), input.image.id.clone())
    };
    read_only::check(&document.spec.mounts, handler, input.engine)?;
    oci_runtime::check_container(&document, &input.sandbox.document, input.engine)?;
    check_pid(&document.spec, &input.sandbox.document.spec)?;
    let mounts = mounts::mounts(&document.spec, input)?;
    let mut host = host_config(&document.spec, input)?;
    host.mounts = Some(mounts.mounts).filter(|mounts| !mounts.is_empty());
    let mut body = body(&document.spec, input);
    (body.user, host.group_add) = (identity.user, identity.groups);
    document.edits = match input.cdi {
        Some(edits) => {
            request_fields::apply_edits((&mut body, &mut host), edits, input.engine, handler)?
        }
        None => {
            name_cdi_devices(&mut host, &document.spec, input.engine)?;
            Vec::new()
        }
    };
    body.labels = Some(labels::container(&document, pod, input.image)?);
    // The document gets the environment that `observe` will read: the requested variables, with the values of
    // CDI devices that set the same variables.
    let variables = body.env.iter().flatten().map_while(|it| variable(it));
    document.spec.envs = variables.take(document.spec.envs.len()).collect();
    let limits = &document.spec.resources;
    // These edits only show whether the container needs edits: before the start, dockbridge makes them again, with the
    // path of the user namespace and the changes of plugins.
    let edits = oci_edits::container(&document, limits, input.engine, None, &[]);
    // Limits that dockbridge sets after the start do not need dockbridge-runtime.
    let needs_oci_runtime = document.is_adjustable || !edits.is_empty();
    if needs_oci_runtime && runtime.is_ok() {
        oci_runtime::use_ours(&mut host);
    }
    body.host_config = Some(host);
    Ok(ContainerPlan { name, document, directories: mounts.directories, body })
}

fn name_cdi_devices(
    host: &mut HostConfig,
    spec: &ContainerSpec,
    engine: &EngineInfo,
) -> Result<(), Failure> {
    let Some(first) = spec.cdi_devices.first() else { return Ok(()) };
    if engine.cdi_spec_dirs.is_empty() {
        return Err(Failure::unmet(format!(
            "CDI device {first:?} is requested but the engine has no CDI specification directory"
        )));
    }
    host.device_requests = Some(vec![DeviceRequest {
        driver: Some("cdi".to_owned()),
        device_ids: Some(spec.cdi_devices.clone()),
        ..DeviceRequest::default()
    }]);
    Ok(())
}

/// Refuses the host's pid namespace if the pod does not use it. containerd does not grant it in such a pod.
fn check_pid(spec: &ContainerSpec, pod: &SandboxSpec) -> Result<(), Failure> {
    if spec.pid != PidMode::Node || pod.namespaces.pid == PidMode::Node {
        return Ok(());
    }
    let field = "config.linux.security_context.namespace_options.pid";
    Err(Failure::invalid(format!("{field}: the pod does not use the host's PID namespace")))
}

fn body(spec: &ContainerSpec, input: &ContainerInput<'_>) -> ContainerCreateBody {
    let env: Vec<String> = spec.envs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    ContainerCreateBody {
        // The request names the image by id, because a tag may have moved since the caller resolved it.
        image: Some(input.image.id.to_string()),
        entrypoint: none_if_empty(&spec.command),
        cmd: none_if_empty(&spec.args),
        env: none_if_empty(&env),
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

fn host_config(spec: &ContainerSpec, input: &ContainerInput<'_>) -> Result<HostConfig, Failure> {
    let pod = &input.sandbox.document;
    let pause = format!("container:{}", input.sandbox.id);
    let mut host = HostConfig {
        annotations: annotations(pod, input.engine),
        cgroup_parent: sandbox::cgroup_parent(&pod.spec.cgroup_parent, input.engine.cgroup_driver)?,
        init: Some(false),
        ipc_mode: Some(pause.clone()),
        log_config: Some(log_config(input.log_format)),
        pid_mode: pid_mode(spec, input)?,
        network_mode: Some(pause),
        restart_policy: Some(never_restart()),
        runtime: sandbox::engine_runtime(&pod.spec.handler, input.engine)?,
        shm_size: Some(SHM_SIZE),
        uts_mode: pod.spec.namespaces.host_network.then(|| "host".to_owned()),
        ..HostConfig::default()
    };
    limits::docker::create(&mut host, &spec.resources, input.oom_floor)?;
    // `cgroup_files` refuses limits that dockbridge could not set later.
    limits::cgroup_files::cgroup_files(&spec.resources, input.engine)?;
    request_fields::add_devices(&mut host, spec);
    let (security, stated) = (&spec.security, spec.security.seccomp.as_ref());
    let seccomp = seccomp::container(stated, security.privileged, input.engine, input.seccomp)?;
    security_options::confine(&mut host, security, input.engine, seccomp)?;
    Ok(host)
}

fn pid_mode(spec: &ContainerSpec, input: &ContainerInput<'_>) -> Result<Option<String>, Failure> {
    Ok(match spec.pid {
        PidMode::Pod => Some(format!("container:{}", input.sandbox.id)),
        PidMode::Container => None,
        PidMode::Node => Some("host".to_owned()),
        PidMode::Target => {
            let missing = "the container whose process namespace is to be joined does not exist";
            let target = input.pid_target.ok_or_else(|| Failure::invalid(missing.to_owned()))?;
            Some(format!("container:{target}"))
        }
    })
}

/// The request sets the log driver, because dockbridge reads only `json-file`, and the options that affect log lines,
/// because Docker otherwise adds its configured options: `non-blocking` mode drops lines, and `compress` replaces files
/// that dockbridge might not have read yet. In the CRI log format, which lacks attributes, their options are empty.
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

/// `repository@digest` of the requested repository, or of any repository, or the image's id.
fn image_reference(spec: &ContainerSpec, image: &ImageRecord) -> String {
    let requested = [&spec.user_image, &spec.image].into_iter().find_map(|text| named(text));
    let digests = &image.repo_digests;
    requested
        .and_then(|requested| digests.iter().find(|text| is_of(text, &requested)))
        .or_else(|| digests.first())
        .cloned()
        .unwrap_or_else(|| image.id.to_string())
}

fn named(text: &str) -> Option<ImageReference> {
    if reference::names_id(text) { None } else { ImageReference::parse(text).ok() }
}

fn is_of(text: &str, requested: &ImageReference) -> bool {
    ImageReference::parse(text).is_ok_and(|known| {
        known.repository() == requested.repository()
            && requested.digest().is_none_or(|digest| known.digest() == Some(digest))
    })
}

/// A container that writes faster than the engine stores its log must wait, so that the engine drops no line.
const BLOCKING: (&str, &str) = ("mode", "blocking");
/// Log options that add attributes to each line.
const ATTRIBUTES: [&str; 5] = ["labels", "labels-regex", "env", "env-regex", "tag"];
/// Size and number of the engine's log files. If a container writes more than these files can hold while dockbridge
/// does not run, lines are lost.
const CRI_ROTATION: (&str, &str) = ("16m", "5");
/// Size and number of log files that kubelet reads through a symlink. If the newest file exceeds kubelet's
/// limit (10 MiB by default), kubelet renames the symlink and requests a new one, so the file must stay smaller.
const DOCKER_ROTATION: (&str, &str) = ("8m", "5");

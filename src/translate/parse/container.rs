//! Parses CreateContainer: `ContainerConfig`, and the log directory and `privileged` in the sandbox's configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use super::{
    error::{At, ParseError},
    image, sandbox, security, text, user_namespace,
};
use crate::{
    model::{
        container::{ContainerMetadata, ContainerSpec, Device, Mount, Propagation},
        path::parts,
    },
    translate::limits,
    wire::cri,
};

/// Reads a container's configuration.
pub fn container_spec(
    config: Option<&cri::ContainerConfig>,
    sandbox: Option<&cri::PodSandboxConfig>,
) -> Result<ContainerSpec, ParseError> {
    let config = config.ok_or_else(ParseError::missing).at("config")?;
    let sandbox = sandbox.ok_or_else(ParseError::missing).at("sandbox_config")?;
    let directory = sandbox::log_directory(sandbox).at("sandbox_config")?;
    let mut spec = spec(config).at("config")?;
    check_command_size(&spec).at("config")?;
    spec.log_path = log_path(directory.as_deref(), &config.log_path).at("config.log_path")?;
    spec.log_directory = directory.filter(|_| spec.log_path.is_some());
    if let Some(linux) = &config.linux {
        read_linux(&mut spec, linux).at("config.linux")?;
    }
    // Uses the pod's configuration of this request, as containerd does, because that of RunPodSandbox can be older:
    // `kubectl debug --profile=sysadmin` adds a privileged container to a running pod.
    let pod = sandbox.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    let is_declared = pod.is_some_and(|context| context.privileged);
    let reason = "cannot be set: the sandbox_config of the request is not privileged";
    ParseError::unless(!spec.security.privileged || is_declared, reason)
        .at("config.linux.security_context.privileged")?;
    Ok(spec)
}

/// Reads the fields of a `ContainerConfig` except `log_path`, `linux` and `windows`.
fn spec(config: &cri::ContainerConfig) -> Result<ContainerSpec, ParseError> {
    let image = config.image.as_ref().ok_or_else(ParseError::missing).at("image")?;
    let words = |items: &[String]| text::each(items, |item| text::plain(item));
    Ok(ContainerSpec {
        metadata: metadata(config.metadata.as_ref()).at("metadata")?,
        image: image::name(image).at("image")?,
        user_image: image::user_name(image).at("image")?,
        command: words(&config.command).at("command")?,
        args: words(&config.args).at("args")?,
        working_dir: working_dir(&config.working_dir).at("working_dir")?,
        envs: text::each(&config.envs, variable).at("envs")?,
        mounts: mounts(&config.mounts).at("mounts")?,
        devices: text::each(&config.devices, device).at("devices")?,
        cdi_devices: cdi_devices(config)?,
        labels: text::pairs(&config.labels).at("labels")?,
        annotations: text::annotations(&config.annotations).at("annotations")?,
        stdin: config.stdin,
        stdin_once: config.stdin_once,
        tty: config.tty,
        stop_signal: stop_signal(config.stop_signal).at("stop_signal")?,
        ..ContainerSpec::default()
    })
}

fn read_linux(
    spec: &mut ContainerSpec,
    linux: &cri::LinuxContainerConfig,
) -> Result<(), ParseError> {
    if let Some(given) = &linux.resources {
        spec.resources = limits::cri::resources(given).at("resources")?;
        spec.resources_stated = true;
    }
    if let Some(context) = &linux.security_context {
        spec.security = security::container(context).at("security_context")?;
        if let Some(options) = &context.namespace_options {
            (spec.pid, spec.pid_target) =
                security::container_pid(options).at("namespace_options").at("security_context")?;
            spec.users =
                user_namespace::users(options).at("namespace_options").at("security_context")?;
        }
    }
    Ok(())
}

/// Refuses a command and an environment that together are longer than the kernel allows for any process: the engine
/// would create such a container, and its start would fail. Of variables with the same name, the last counts.
fn check_command_size(spec: &ContainerSpec) -> Result<(), ParseError> {
    let words = spec.command.iter().chain(&spec.args).map(|word| word.len() + 1);
    let variables: BTreeMap<&str, usize> =
        spec.envs.iter().map(|(key, value)| (key.as_str(), key.len() + value.len() + 2)).collect();
    let bytes: usize = words.chain(variables.into_values()).sum();
    let reason = format!(
        "command, args and envs are {bytes} bytes together; the kernel passes at most {LARGEST_COMMAND_AND_ENV} to a process"
    );
    ParseError::unless(bytes <= LARGEST_COMMAND_AND_ENV, reason)
}

fn metadata(given: Option<&cri::ContainerMetadata>) -> Result<ContainerMetadata, ParseError> {
    let given = given.ok_or_else(ParseError::missing)?;
    Ok(ContainerMetadata { name: text::name(&given.name).at("name")?, attempt: given.attempt })
}

/// Refuses a relative working directory, as the engine does.
fn working_dir(path: &str) -> Result<String, ParseError> {
    if path.is_empty() { Ok(String::new()) } else { text::absolute(path) }
}

/// Reads an environment variable. The value is bytes in the CRI, but text in the engine's JSON.
fn variable(given: &cri::KeyValue) -> Result<(String, String), ParseError> {
    text::checked(!given.key.contains('='), "must not contain '='", &given.key).at("key")?;
    let key = text::required(&given.key).at("key")?;
    let value = str::from_utf8(&given.value)
        .map_err(|_| {
            ParseError::invalid(format!("the value of {} is not UTF-8", text::quoted(&key)))
        })
        .and_then(text::plain)
        .at("value")?;
    Ok((key, value))
}

/// The path of the log in the pod's log directory. `None` (no log) without a path or directory.
fn log_path(directory: Option<&Path>, path: &str) -> Result<Option<PathBuf>, ParseError> {
    text::no_parent(path)?;
    let path = text::plain(path)?;
    // A log path with a leading slash is also below the pod's log directory, as in other CRI servers.
    let relative = path.trim_start_matches('/');
    let directory = directory.filter(|_| !relative.is_empty());
    Ok(directory.map(|directory| directory.join(relative)))
}

/// Name of the stop signal, such as `SIGTERM`. `None` leaves the choice to the image or the engine.
pub fn stop_signal(number: i32) -> Result<Option<String>, ParseError> {
    let signal = cri::Signal::try_from(number)
        .map_err(|_| ParseError::invalid(format!("is not a known signal: {number}")))?;
    if signal == cri::Signal::RuntimeDefault {
        return Ok(None);
    }
    let name = signal.as_str_name().trim_start_matches("SIGNAL_");
    Ok(Some(match name.strip_prefix("SIGRT") {
        Some(_) => {
            let offset = name.replace("PLUS", "+").replace("MINUS", "-");
            offset.trim_start_matches("SIG").to_owned()
        }
        None => name.to_owned(),
    }))
}

/// The CDI devices, without duplicates: first those of the field, then those of older kubelets' annotations.
fn cdi_devices(config: &cri::ContainerConfig) -> Result<Vec<String>, ParseError> {
    let named = text::each(&config.cdi_devices, |given| cdi_device(&given.name).at("name"));
    let mut devices = named.at("CDI_devices")?;
    for (key, list) in
        config.annotations.iter().filter(|(key, _)| key.starts_with(CDI_ANNOTATION_PREFIX))
    {
        for name in list.split(',') {
            devices.push(cdi_device(name).at(format!("annotations[{}]", text::quoted(key)))?);
        }
    }
    let mut seen = BTreeSet::new();
    devices.retain(|device| seen.insert(device.clone()));
    Ok(devices)
}

fn cdi_device(name: &str) -> Result<String, ParseError> {
    let parts = name.split_once('=').and_then(|(kind, name)| Some((kind.split_once('/')?, name)));
    let qualified = parts.is_some_and(|((vendor, class), name)| {
        !vendor.is_empty() && !class.is_empty() && !name.is_empty()
    });
    text::checked(
        qualified,
        "is not the name of a CDI device, such as vendor.com/class=name",
        name,
    )?;
    text::word(name)
}

fn mounts(given: &[cri::Mount]) -> Result<Vec<Mount>, ParseError> {
    let mut taken = BTreeSet::new();
    for (at, mount) in given.iter().enumerate() {
        let path = &mount.container_path;
        text::checked(taken.insert(parts(path)), "is mounted twice", path)
            .at(format_args!("[{at}].container_path"))?;
    }
    text::each(given, mount)
}

fn device(given: &cri::Device) -> Result<Device, ParseError> {
    let permissions = &given.permissions;
    let valid =
        permissions.len() <= 3 && permissions.bytes().all(|b| matches!(b, b'r' | b'w' | b'm'));
    text::checked(valid, "may contain only r, w and m, at most three letters", permissions)
        .at("permissions")?;
    Ok(Device {
        container_path: device_path(&given.container_path).at("container_path")?,
        host_path: text::path(&given.host_path).at("host_path")?,
        permissions: permissions.clone(),
    })
}

/// Path of a device in the container. A relative path starts at the root, as in OCI runtimes.
fn device_path(path: &str) -> Result<String, ParseError> {
    if path.is_empty() || path.starts_with('/') {
        return text::path(path);
    }
    text::path(&format!("/{path}"))
}

fn mount(given: &cri::Mount) -> Result<Mount, ParseError> {
    let propagation = propagation(given.propagation).at("propagation")?;
    let image = given.image.as_ref().map(|spec| image::name(spec).at("image")).transpose()?;
    let host_path = if image.is_some() {
        let reason = "must be set: an image is mounted read-only";
        ParseError::unless(given.readonly, reason).at("readonly")?;
        ParseError::unless(given.host_path.is_empty(), "conflicts with image").at("host_path")?;
        String::new()
    } else {
        text::path(&given.host_path).at("host_path")?
    };
    Ok(Mount {
        container_path: target(&given.container_path).at("container_path")?,
        host_path,
        readonly: given.readonly,
        selinux_relabel: given.selinux_relabel,
        propagation,
        recursive_read_only: given.recursive_read_only,
        image_sub_path: sub_path(given, image.is_some()).at("image_sub_path")?,
        image,
        id_mappings: user_namespace::of_mount(given)?,
        options: text::each(&given.mount_options, |option| user_namespace::mount_option(option))
            .at("mount_options")?,
    })
}

fn propagation(number: i32) -> Result<Propagation, ParseError> {
    match cri::MountPropagation::try_from(number) {
        Ok(cri::MountPropagation::PropagationPrivate) => Ok(Propagation::Private),
        Ok(cri::MountPropagation::PropagationHostToContainer) => Ok(Propagation::HostToContainer),
        Ok(cri::MountPropagation::PropagationBidirectional) => Ok(Propagation::Bidirectional),
        Err(_) => Err(ParseError::invalid(format!("is not a known propagation: {number}"))),
    }
}

fn sub_path(given: &cri::Mount, has_image: bool) -> Result<String, ParseError> {
    let path = given.image_sub_path.as_str();
    if path.is_empty() {
        return Ok(String::new());
    }
    ParseError::unless(has_image, "needs an image")?;
    text::checked(!path.starts_with('/'), "must be relative", path)?;
    text::no_parent(path)?;
    text::plain(path)
}

/// Path of a mount in the container. Refuses the root, as the engine does. The engine cleans the path.
fn target(path: &str) -> Result<String, ParseError> {
    ParseError::unless(
        path.is_empty() || !parts(path).is_empty(),
        "must not be the root directory",
    )?;
    text::absolute(path)
}

/// The most bytes of command and environment that Linux passes to a process, whatever its stack limit
/// (`_STK_LIM / 4 * 3` in `fs/exec.c`). With the usual 8 MiB of stack, command and environment can have only 2 MiB.
const LARGEST_COMMAND_AND_ENV: usize = 6 << 20;
/// The prefix of annotations with CDI devices. kubelet before 1.28 does not use the field for CDI devices.
const CDI_ANNOTATION_PREFIX: &str = "cdi.k8s.io/";

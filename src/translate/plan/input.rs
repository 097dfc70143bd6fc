//! Inputs of a plan in addition to the specification. The caller gathers these inputs, so that a plan needs no I/O.

use std::path::PathBuf;

use crate::model::{
    accounts::Accounts,
    container::ContainerLogFormat,
    engine::EngineInfo,
    id::{ContainerId, ImageId},
    network::NetworkMode,
    record::{ImageRecord, SandboxRecord},
    restore::Restore,
    spec_edit::SpecEdit,
    volume::ImageVolume,
};

/// The inputs for the plan of a sandbox, in addition to its spec.
#[derive(Clone, Copy, Debug)]
pub struct SandboxInput<'a> {
    pub engine: &'a EngineInfo,
    pub pause: &'a ImageId,
    /// How dockbridge connects pods that do not use the host's network.
    pub network: NetworkMode,
    pub oom_floor: i64,
    /// Text of the requested seccomp profile, if it is a file of the host.
    pub seccomp: Option<&'a str>,
    /// Name of the group of containers that share a containerd shim, unique for each sandbox.
    pub shim_group: &'a str,
}

/// The inputs for the plan of a container, in addition to its spec.
#[derive(Clone, Copy, Debug)]
pub struct ContainerInput<'a> {
    pub engine: &'a EngineInfo,
    pub sandbox: &'a SandboxRecord,
    pub image: &'a ImageRecord,
    pub oom_floor: i64,
    pub files: &'a PodFiles,
    /// For `PidMode::Target`: the container whose processes the new container can see.
    pub pid_target: Option<&'a ContainerId>,
    pub log_format: ContainerLogFormat,
    /// Text of the requested seccomp profile, if it is a file of the host.
    pub seccomp: Option<&'a str>,
    /// Users and groups of the image; `None` if dockbridge cannot read their files.
    pub accounts: Option<&'a Accounts>,
    /// The edits for the container's CDI devices; `None` without devices, or if the engine reads CDI files itself.
    pub cdi: Option<&'a [SpecEdit]>,
    /// Whether NRI plugins may change more than the container's limits before its start.
    pub is_adjustable: bool,
    /// The container checkpoint from which the container starts, if any.
    pub restore: Option<&'a Restore>,
    /// The prepared image volumes, in the order of the container's mounts.
    pub image_volumes: &'a [ImageVolume],
}

/// The files of a pod that its containers get as mounts, unless a container has its own mount there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFiles {
    pub resolv_conf: Option<PathBuf>,
    pub hosts: Option<PathBuf>,
    pub hostname: Option<PathBuf>,
}

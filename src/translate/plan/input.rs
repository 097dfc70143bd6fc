//! The inputs of a plan in addition to the specification. The caller gathers them, so that planning does no I/O.

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

/// The inputs of a sandbox's plan in addition to its spec.
#[derive(Clone, Copy, Debug)]
pub struct SandboxInput<'a> {
    pub engine: &'a EngineInfo,
    /// The pause image, present in the engine.
    pub pause: &'a ImageId,
    /// How pods outside the host's network are connected.
    pub network: NetworkMode,
    /// The lowest `oom_score_adj` that the engine may set on this host.
    pub oom_floor: i64,
    /// Text of the seccomp profile, if it is a file of the host.
    pub seccomp: Option<&'a str>,
    /// Name for the pod's containerd shim; unique for each sandbox.
    pub shim_group: &'a str,
}

/// The inputs of a container's plan in addition to its spec.
#[derive(Clone, Copy, Debug)]
pub struct ContainerInput<'a> {
    pub engine: &'a EngineInfo,
    pub sandbox: &'a SandboxRecord,
    /// The image, present in the engine.
    pub image: &'a ImageRecord,
    /// The lowest `oom_score_adj` that the engine may set on this host.
    pub oom_floor: i64,
    pub files: &'a PodFiles,
    /// With `PidMode::Target`: the container whose processes it can see.
    pub pid_target: Option<&'a ContainerId>,
    pub log_format: ContainerLogFormat,
    /// Text of the seccomp profile, if it is a file of the host.
    pub seccomp: Option<&'a str>,
    /// Users and groups of the image; none if they cannot be read.
    pub accounts: Option<&'a Accounts>,
    /// The edits for its CDI devices; none if the engine reads CDI specifications itself.
    pub cdi: Option<&'a [SpecEdit]>,
    /// NRI plugins may change it before its start.
    pub is_adjustable: bool,
    /// The dump from which it starts.
    pub restore: Option<&'a Restore>,
    /// The prepared image mounts, in the order of the specification.
    pub image_volumes: &'a [ImageVolume],
}

/// The pod's files that are mounted writable into each of its containers, unless the container mounts
/// something else at the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFiles {
    pub resolv_conf: Option<PathBuf>,
    pub hosts: Option<PathBuf>,
    pub hostname: Option<PathBuf>,
}

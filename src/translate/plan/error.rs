//! Why a specification cannot be planned for this engine.

use thiserror::Error;

use crate::error::Kind;

/// A refusal before anything was changed.
#[derive(Debug, Error)]
pub enum PlanError {
    #[error("unknown runtime handler {handler:?}: the engine has {known}")]
    UnknownHandler {
        handler: String,
        /// The engine's runtimes, separated by commas.
        known: String,
    },
    #[error("cgroup parent {parent:?} does not fit the engine's {driver} cgroup driver: {remedy}")]
    CgroupParent { parent: String, driver: &'static str, remedy: &'static str },
    #[error(
        "name {start:?}… cannot be a container name: only letters, digits, '_', '.' and '-', at \
         most {MAX_NAME} of them"
    )]
    Name { start: String },
    /// The container should share the processes of another container, which is unknown.
    #[error("no target container for the shared process namespace")]
    NoPidTarget,
    #[error("seccomp profile {path:?} could not be read")]
    NoSeccompProfile { path: String },
    #[error("seccomp profile {path:?} cannot be used: {reason}")]
    SeccompProfile { path: String, reason: String },
    #[error(
        "seccomp profile {profile} is requested but the engine runs without seccomp, or with an \
         unconfined default"
    )]
    NoSeccomp { profile: String },
    #[error("{field}: {reason}")]
    Host {
        /// The field as in the interface.
        field: String,
        reason: String,
    },
    #[error("AppArmor profile {profile:?} is requested but the engine runs without AppArmor")]
    NoApparmor { profile: String },
    #[error(
        "cannot resolve the user's groups: the image's /etc/passwd and /etc/group are not known"
    )]
    NoAccounts,
    #[error("{field}: the image's /etc/passwd has no user {user:?}")]
    UnknownUser { field: &'static str, user: String },
    #[error("{field}: the image's /etc/group has no group {group:?}")]
    UnknownGroup { field: &'static str, group: String },
    /// runc before 1.2 would read the number as a name.
    #[error("group {gid} is ambiguous: the image's /etc/group has another group of that name")]
    AmbiguousGroup { gid: u32 },
    #[error("CDI device {device:?} is requested but the engine has no CDI specification directory")]
    NoCdi { device: String },
    /// A CDI device and something else have the same path in the container.
    #[error(
        "the CDI device's {what} at {target:?} (host path {second}) conflicts with the {what} of \
         host path {first}"
    )]
    CdiConflict { what: &'static str, target: String, first: String, second: String },
    #[error("mount at {target:?} names neither a host path nor an image")]
    NoMountSource { target: String },
    /// kubelet reads the prefix.
    #[error("ImageVolumeMountFailed: image {image:?} cannot be mounted at {target:?}: {reason}")]
    ImageVolume { image: String, target: String, reason: &'static str, kind: Kind },
    /// kubelet reads the prefix.
    #[error("RROUnsupported: mount at {target:?} cannot be recursively read-only: {reason}")]
    RecursiveReadOnly { target: String, reason: &'static str },
    #[error("recursive_read_only of the mount at {target:?} needs {needs}")]
    NotReadOnly { target: String, needs: &'static str },
    /// Memory and swap can only be limited together.
    #[error("linux.resources.memory_swap_limit_in_bytes: {together} needs a memory limit as well")]
    SwapWithoutMemory { together: i64 },
    /// The limit of memory and swap together includes memory.
    #[error(
        "linux.resources.memory_swap_limit_in_bytes: {together} is less than the memory limit \
         {memory}, which it includes"
    )]
    SwapBelowMemory {
        together: i64,
        /// The memory limit in bytes that applies with it.
        memory: i64,
    },
    #[error(
        "linux.resources.unified[\"memory.swap.max\"]: {alone} disagrees with \
         memory_swap_limit_in_bytes"
    )]
    SwapDisagrees { alone: String },
    #[error(
        "linux.resources.unified[{key:?}]: the engine's host has cgroup v1, which has no such file"
    )]
    NoCgroupV2 { key: String },
    /// The Engine API has no field for it, and dockbridge's OCI runtime is missing or does not support it
    /// either.
    #[error("{field}: {reason}")]
    NeedsRuntime { field: String, reason: &'static str },
    /// A CDI device or an NRI plugin may not change this.
    #[error("{field}: no CDI device or NRI plugin may change it")]
    NotForPlugins { field: String },
    /// A container requests other id mappings than those of its pod.
    #[error("{field}: must be the same as the pod's: {pod}")]
    OtherUsers { field: &'static str, pod: &'static str },
    #[error("config.linux.security_context.{field}: the pod sandbox {sandbox}")]
    BeyondSandbox { field: &'static str, sandbox: &'static str },
    /// Labels and annotations in their stored form.
    #[error(
        "labels and annotations are too large: {bytes} bytes as stored with the labels of the \
         image, {limit} are allowed"
    )]
    LabelsTooLarge { bytes: usize, limit: usize },
    /// The document could not be encoded, because a path is not UTF-8.
    #[error("the request cannot be stored in a label")]
    Document {
        #[from]
        source: serde_json::Error,
    },
}

impl PlanError {
    /// The kind of the error.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::NoAccounts
            | Self::NoCgroupV2 { .. }
            | Self::CgroupParent { .. }
            | Self::NoApparmor { .. }
            | Self::NoSeccomp { .. }
            | Self::NoCdi { .. } => Kind::FailedPrecondition,
            Self::ImageVolume { kind, .. } => *kind,
            Self::NeedsRuntime { .. } | Self::NotForPlugins { .. } => Kind::Unimplemented,
            Self::UnknownHandler { .. }
            | Self::Name { .. }
            | Self::NoPidTarget
            | Self::NoSeccompProfile { .. }
            | Self::SeccompProfile { .. }
            | Self::Host { .. }
            | Self::NotReadOnly { .. }
            | Self::OtherUsers { .. }
            | Self::BeyondSandbox { .. }
            | Self::UnknownUser { .. }
            | Self::UnknownGroup { .. }
            | Self::AmbiguousGroup { .. }
            | Self::NoMountSource { .. }
            | Self::CdiConflict { .. }
            | Self::SwapWithoutMemory { .. }
            | Self::SwapBelowMemory { .. }
            | Self::SwapDisagrees { .. }
            | Self::RecursiveReadOnly { .. }
            | Self::LabelsTooLarge { .. }
            | Self::Document { .. } => Kind::InvalidArgument,
        }
    }
}

/// Longest container name. The engine has no limit, but the name is part of a URL. The longest name from
/// Kubernetes has less than 500 characters.
pub(super) const MAX_NAME: usize = 1024;

//! Why a spec cannot be planned on this engine.

use thiserror::Error;

use crate::error::Kind;

/// A refusal, made before anything was changed.
#[derive(Debug, Error)]
pub enum PlanError {
    #[error("unknown runtime handler {handler:?}: the engine has {known}")]
    UnknownHandler {
        handler: String,
        /// The engine's runtimes, comma separated.
        known: String,
    },
    #[error("cgroup parent {parent:?} does not fit the engine's {driver} cgroup driver: {remedy}")]
    CgroupParent { parent: String, driver: &'static str, remedy: &'static str },
    #[error(
        "name {start:?}… cannot be a container name: only letters, digits, '_', '.' and '-', at \
         most {MAX_NAME} of them"
    )]
    Name {
        /// The first characters of the name.
        start: String,
    },
    /// The container shares the processes of another one, which is not known.
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
        /// The field as the interface spells it.
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
    /// Runtimes before runc 1.2 would take the number for a name.
    #[error("group {gid} is ambiguous: the image's /etc/group has another group of that name")]
    AmbiguousGroup { gid: u32 },
    #[error("CDI device {device:?} is requested but the engine has no CDI specification directory")]
    NoCdi { device: String },
    /// A CDI device and something else have one path in the container.
    #[error(
        "the CDI device's {what} at {target:?} (host path {second}) conflicts with the {what} of \
         host path {first}"
    )]
    CdiConflict {
        what: &'static str,
        target: String,
        /// On the host.
        first: String,
        /// On the host.
        second: String,
    },
    #[error("mount at {target:?} names neither a host path nor an image")]
    NoMountSource { target: String },
    /// Kubelet reads the prefix.
    #[error("ImageVolumeMountFailed: image {image:?} cannot be mounted at {target:?}: {reason}")]
    ImageVolume {
        /// The image, as the caller names it.
        image: String,
        target: String,
        reason: &'static str,
        kind: Kind,
    },
    /// Kubelet reads the prefix.
    #[error("RROUnsupported: mount at {target:?} cannot be recursively read-only: {reason}")]
    RecursiveReadOnly { target: String, reason: &'static str },
    #[error("recursive_read_only of the mount at {target:?} needs {needs}")]
    NotReadOnly { target: String, needs: &'static str },
    /// Memory and swap are limited together or not at all.
    #[error(
        "linux.resources.memory_swap_limit_in_bytes: {together} needs a memory limit beside it"
    )]
    SwapWithoutMemory {
        /// The requested limit, in bytes.
        together: i64,
    },
    /// The limit of memory and swap together includes memory.
    #[error(
        "linux.resources.memory_swap_limit_in_bytes: {together} is less than the memory limit \
         {memory}, which it includes"
    )]
    SwapBelowMemory {
        /// The limit of both, in bytes.
        together: i64,
        /// The memory limit it is to be beside, in bytes.
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
    /// The Engine API has no field for it, and our OCI runtime is not there or cannot do it either.
    #[error("{field}: {reason}")]
    NeedsRuntime {
        /// The field as the interface spells it.
        field: String,
        reason: &'static str,
    },
    /// A CDI device or an NRI plugin changes what they may not.
    #[error("{field}: no CDI device or NRI plugin may change it")]
    NotForPlugins { field: String },
    /// A container asks for other users than those of its pod.
    #[error("{field}: must be the same as the pod's, which has {pod}")]
    OtherUsers {
        /// The field as the interface spells it.
        field: &'static str,
        pod: &'static str,
    },
    #[error("config.linux.security_context.{field}: the pod sandbox {sandbox}")]
    BeyondSandbox { field: &'static str, sandbox: &'static str },
    /// Labels and annotations, as they are stored.
    #[error(
        "labels and annotations are too large: {bytes} bytes as stored with the labels of the \
         image, {limit} are allowed"
    )]
    LabelsTooLarge {
        bytes: usize,
        /// How large they may be.
        limit: usize,
    },
    /// The document could not be encoded: a path is not UTF-8.
    #[error("the request cannot be stored in a label")]
    Document {
        #[from]
        source: serde_json::Error,
    },
}

impl PlanError {
    /// What sort of failure it is.
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

/// Longest container name. The engine sets no limit, but the name travels in a URL; the longest
/// that Kubernetes can make is below 500.
pub(super) const MAX_NAME: usize = 1024;

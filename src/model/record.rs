//! The current state of a sandbox, a container or an image. Records contain only facts. Readiness and CRI
//! states are computed from records and never stored.

use std::{net::IpAddr, sync::Arc};

use super::{
    attachment::Attachment,
    document::{ContainerDocument, SandboxDocument},
    id::{ContainerId, ImageId, SandboxId},
    network::{DnsConfig, NetworkMode},
    resources::Resources,
    time::Nanos,
    user_namespace::IdMappings,
};

/// The facts about a sandbox, from Docker and from its checkpoint file in the state directory.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxRecord {
    pub id: SandboxId,
    /// Full container name in Docker, without the leading slash.
    pub name: String,
    pub document: Arc<SandboxDocument>,
    pub created_at: Nanos,
    /// The pause container's process according to Docker. None if Docker no longer has the pause container,
    /// and only the checkpoint file shows that the pod's network must be released.
    pub process: Option<Process>,
    /// The pod's addresses on Docker's own bridge ([`NetworkMode::Docker`]).
    pub engine_addresses: Vec<IpAddr>,
    /// The state of the pod's CNI network ([`NetworkMode::Cni`]). None if no checkpoint file has this state, for
    /// example because the pod does not use CNI or no plugin has run yet.
    pub attachment: Option<Attachment>,
}

/// Whether containers can be created and started in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SandboxState {
    /// The pause container runs and, with CNI, the pod's network is connected.
    Ready,
    NotReady,
}

impl SandboxRecord {
    /// The state that CRI's answers show.
    pub fn state(&self) -> SandboxState {
        let connected = match self.document.network {
            NetworkMode::Cni => {
                matches!(self.attachment, Some(Attachment::Ready { .. }))
                    && self.has_same_pause_process()
            }
            NetworkMode::Docker | NetworkMode::Host => true,
        };
        if self.is_running() && connected { SandboxState::Ready } else { SandboxState::NotReady }
    }

    /// Whether the pause container runs: see [`Process::is_running`].
    pub fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_running)
    }

    /// The pod's addresses, the primary first. Empty with the host's network: kubelet then uses the node's addresses.
    pub fn addresses(&self) -> &[IpAddr] {
        match (self.document.network, &self.attachment) {
            (NetworkMode::Host, _) | (NetworkMode::Cni, None) => &[],
            (NetworkMode::Docker, _) => &self.engine_addresses,
            (NetworkMode::Cni, Some(attachment)) => attachment.addresses(),
        }
    }

    /// Completes the record of an adopted pod with DNS settings and id mappings from a container's request.
    #[must_use]
    pub fn with_settings_if_adopted(
        self: Arc<Self>,
        dns: Option<DnsConfig>,
        users: Option<IdMappings>,
    ) -> Arc<Self> {
        if !self.document.is_adopted {
            return self;
        }
        let mut record = Arc::unwrap_or_clone(self);
        let spec = &mut Arc::make_mut(&mut record.document).spec;
        // With empty DNS settings, containers of adopted pods get the engine's `resolv.conf`, as with cri-dockerd.
        spec.dns = dns.filter(|dns| *dns != DnsConfig::default());
        spec.namespaces.users = users;
        Arc::new(record)
    }

    /// Whether the pause process, as far as dockbridge knows, is still the one whose network was connected.
    /// After `docker restart`, the pod has a new pause process. Without dockbridge-runtime, the new pause process is in
    /// a new network namespace, which is not connected.
    pub fn has_same_pause_process(&self) -> bool {
        match (&self.attachment, self.process.as_ref().and_then(Process::started_at)) {
            (Some(Attachment::Ready { started_at: Some(then), .. }), Some(now)) => {
                *then == now || !now.is_set()
            }
            _ => true,
        }
    }

    /// The pid of the pause process on the host. None if the pause process does not run, or if its pid is unknown.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::pid)
    }
}

/// A workload container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerRecord {
    pub id: ContainerId,
    /// Full container name in Docker, without the leading slash.
    pub name: String,
    pub document: Arc<ContainerDocument>,
    pub created_at: Nanos,
    pub process: Process,
    /// The stop signal of the container or its image, as Docker writes it.
    pub stop_signal: Option<String>,
    /// Whether a label named `signal` replaces the sent signal in the engine's events.
    pub hides_signals: bool,
    /// The engine's log file of the container, if the engine reports one.
    pub engine_log: Option<std::path::PathBuf>,
    pub log_driver: String,
    /// The directory of the container's writable layer, if the engine reports one.
    pub writable_layer: Option<std::path::PathBuf>,
    /// The limits that the engine reports. The engine reports no limits of huge pages and no cgroup v2 keys.
    pub limits: Resources,
    /// The program and arguments of the process, which can be those of the image; empty before an inspect.
    pub command_line: Vec<String>,
}

/// A container of the engine, by its role in a pod.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "a value is matched soon after its creation, and is stored only in a box"
)]
pub enum Observed {
    /// A pod's pause container. The record has no attachment yet, because only the pod's checkpoint file has one.
    Sandbox(SandboxRecord),
    Container(ContainerRecord),
    Foreign(ForeignContainer),
}

/// The facts that dockbridge needs about a container that is not part of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignContainer {
    pub image: Option<ImageId>,
    /// The container, perhaps a pod's pause container, whose network namespace this container joins.
    pub joined: Option<SandboxId>,
}

/// A container's main process according to Docker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Process {
    /// The process was never started, as far as Docker knows.
    Created,
    /// Running (or paused, or restarting).
    Running { pid: u32, started_at: Nanos },
    /// The process has ended, or could not be started.
    Exited {
        /// The start time, or the container's creation time if the start failed.
        started_at: Nanos,
        finished_at: Nanos,
        exit_code: i32,
        reason: ExitReason,
        /// The engine's message, for example why the process could not be started.
        message: String,
    },
    /// The state is from the engine's list, because the last inspect failed or is not answered yet.
    Listed(ListedState),
    /// The engine reports a state that dockbridge does not know.
    Unknown,
}

/// The state in the engine's list (`GET /containers/json`), which has no exact times of starts and ends and no reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedState {
    /// The container was never started, or its start failed: the list does not distinguish these.
    Created,
    /// Running (or paused, or restarting).
    Running,
    Exited {
        /// The exit code of the main process, if the list has it.
        exit_code: Option<i32>,
    },
}

impl Process {
    /// The name of the state, for metrics, the state dump and error messages.
    pub const fn state_name(&self) -> &'static str {
        match self {
            Self::Created | Self::Listed(ListedState::Created) => "created",
            Self::Running { .. } | Self::Listed(ListedState::Running) => "running",
            Self::Exited { .. } | Self::Listed(ListedState::Exited { .. }) => "exited",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the container runs. Also true while it is paused, or while Docker is about to restart it.
    pub const fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. } | Self::Listed(ListedState::Running))
    }

    /// Whether Docker says that the process has ended, or that it could not be started.
    pub const fn has_ended(&self) -> bool {
        matches!(self, Self::Exited { .. } | Self::Listed(ListedState::Exited { .. }))
    }

    /// Whether this state is from the engine's list: see [`Self::Listed`].
    pub const fn is_listed(&self) -> bool {
        matches!(self, Self::Listed(_))
    }

    /// Whether a newer list, which only distinguishes created, running and exited, contradicts this state.
    pub const fn contradicts(&self, listed: ListedState) -> bool {
        !matches!(
            (self, listed),
            (Self::Created | Self::Listed(ListedState::Created), ListedState::Created)
                // After a failed start, the engine's list still shows the state "created".
                | (Self::Exited { reason: ExitReason::CannotRun, .. }, ListedState::Created)
                | (Self::Running { .. } | Self::Listed(ListedState::Running), ListedState::Running)
                | (Self::Exited { .. } | Self::Listed(ListedState::Exited { .. }), ListedState::Exited { .. })
        )
    }

    /// When the process was started; the container's creation time if the start failed. [`Nanos::UNSET`] if the
    /// engine does not say. None for a created, listed or unknown process.
    pub const fn started_at(&self) -> Option<Nanos> {
        match self {
            Self::Running { started_at, .. } | Self::Exited { started_at, .. } => Some(*started_at),
            Self::Created | Self::Listed(_) | Self::Unknown => None,
        }
    }

    /// The pid on the host while the process runs. None if the pid is unknown, for example before an inspect.
    pub const fn pid(&self) -> Option<u32> {
        match self {
            Self::Running { pid, .. } if *pid > 0 => Some(*pid),
            _ => None,
        }
    }
}

/// CRI's `ContainerStatus.reason` of an ended container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    Completed,
    Error,
    /// The kernel killed a process of the container because memory ran out.
    OomKilled,
    CannotRun,
}

impl ExitReason {
    /// The name of the reason that kubelet shows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "Completed",
            Self::Error => "Error",
            Self::OomKilled => "OOMKilled",
            Self::CannotRun => "ContainerCannotRun",
        }
    }
}

/// An image in the engine's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRecord {
    /// The image's id, which is the same in all CRI answers.
    pub id: ImageId,
    /// `repository:tag` names, without Docker's `<none>`.
    pub repo_tags: Vec<String>,
    /// `repository@digest` names, without Docker's `<none>`.
    pub repo_digests: Vec<String>,
    /// How many bytes the image uses on the disk, as the engine's list counts them; never 0.
    pub size: u64,
    /// `Config.User` of the image.
    pub user: String,
    pub labels: std::collections::BTreeMap<String, String>,
    /// `Config.StopSignal` of the image.
    pub stop_signal: Option<String>,
    /// `Config.Volumes` of the image: the paths of volumes in its containers.
    pub volumes: std::collections::BTreeSet<String>,
    /// Whether the engine has answered an inspect of the image: lists of images have no user, stop signal or volumes.
    pub inspected: bool,
}

impl ImageRecord {
    /// Whether the image has a tag or a digest.
    #[must_use]
    pub const fn is_named(&self) -> bool {
        !self.repo_tags.is_empty() || !self.repo_digests.is_empty()
    }
}

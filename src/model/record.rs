//! The current state of a sandbox, a container or an image. Records hold facts. Readiness and states are
//! derived from them and never stored.

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

/// A sandbox: facts from Docker and from the checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxRecord {
    /// Docker id of the pause container.
    pub id: SandboxId,
    /// Full container name in Docker, without the leading slash.
    pub name: String,
    pub document: Arc<SandboxDocument>,
    pub created_at: Nanos,
    /// The pause process according to Docker. None if Docker no longer has the container, and only the
    /// checkpoint shows that its network must be released.
    pub process: Option<Process>,
    /// Addresses from Docker itself ([`NetworkMode::Docker`]).
    pub engine_addresses: Vec<IpAddr>,
    /// The state of CNI ([`NetworkMode::Cni`]). None before the checkpoint records that plugins will run.
    pub attachment: Option<Attachment>,
}

/// Whether a sandbox can hold containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SandboxState {
    /// Its pause container runs and its network is connected. Connecting is the last step of RunPodSandbox,
    /// so a sandbox that is not complete is never ready.
    Ready,
    NotReady,
}

impl SandboxRecord {
    /// The state CRI shows.
    pub fn state(&self) -> SandboxState {
        let running = self.process.as_ref().is_some_and(Process::is_running);
        let connected = match self.document.network {
            NetworkMode::Cni => {
                matches!(self.attachment, Some(Attachment::Ready { .. })) && self.is_as_connected()
            }
            NetworkMode::Docker | NetworkMode::Host => true,
        };
        if running && connected { SandboxState::Ready } else { SandboxState::NotReady }
    }

    /// Addresses of the pod, primary first. Empty for host-network pods (kubelet uses the node's addresses)
    /// and for pods that are not ready.
    pub fn addresses(&self) -> &[IpAddr] {
        match (self.document.network, &self.attachment) {
            (NetworkMode::Host, _) | (NetworkMode::Cni, None) => &[],
            (NetworkMode::Docker, _) => &self.engine_addresses,
            (NetworkMode::Cni, Some(attachment)) => attachment.addresses(),
        }
    }

    /// The pod for which a container is created. DNS and ID mappings of an adopted pod may be unknown. The
    /// container's request also has them, so they are taken from it.
    #[must_use]
    pub fn completed(
        self: Arc<Self>,
        dns: Option<DnsConfig>,
        users: Option<IdMappings>,
    ) -> Arc<Self> {
        if !self.document.is_adopted {
            return self;
        }
        let mut record = Arc::unwrap_or_clone(self);
        let spec = &mut Arc::make_mut(&mut record.document).spec;
        // cri-dockerd also kept the engine's file for an empty configuration.
        spec.dns = dns.filter(|dns| *dns != DnsConfig::default());
        spec.namespaces.users = users;
        Arc::new(record)
    }

    /// Whether the pause process is still the one that was connected, as far as dockbridge knows. After
    /// `docker restart` it is another process, in a new network namespace that is not connected.
    pub fn is_as_connected(&self) -> bool {
        match (&self.attachment, self.process.as_ref().and_then(Process::started_at)) {
            (Some(Attachment::Ready { started_at: Some(then), .. }), Some(now)) => {
                *then == now || !now.is_set()
            }
            _ => true,
        }
    }

    /// Host pid of the pause, while it runs.
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
    /// Its process according to Docker.
    pub process: Process,
    /// The signal that a stop sends, from the container or the image, as Docker writes it.
    pub stop_signal: Option<String>,
    /// Whether the container has a label named `signal`. The engine's events show this label instead of the signal
    /// that was sent.
    pub hides_signals: bool,
    /// The engine's log file, if its log driver has one.
    pub engine_log: Option<std::path::PathBuf>,
    pub log_driver: String,
    /// Directory of its writable layer, if the engine's storage driver reports one.
    pub writable_layer: Option<std::path::PathBuf>,
    /// Limits that the engine knows. Huge pages and cgroup v2 keys are missing.
    pub limits: Resources,
}

/// A container of the engine, by its role.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a value is taken apart at once and never kept")]
pub enum Observed {
    /// A pod's pause container. The attachment is still missing, because only the checkpoint has it.
    Sandbox(SandboxRecord),
    Container(ContainerRecord),
    Foreign(ForeignContainer),
}

/// The relevant facts about a container that is not part of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignContainer {
    /// The image that it was created from.
    pub image: Option<ImageId>,
    /// The container whose network namespace it joined. This may be a pod's pause container.
    pub joined: Option<SandboxId>,
}

/// A container's main process according to Docker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Process {
    /// Never started, as far as the engine knows.
    Created,
    /// Running (or paused, or restarting).
    Running { pid: u32, started_at: Nanos },
    /// Ended, or could not be started.
    Exited {
        /// Start time. If the start failed, it is the creation time.
        started_at: Nanos,
        finished_at: Nanos,
        exit_code: i32,
        reason: ExitReason,
        /// The engine's message, e.g. why it could not be started.
        message: String,
    },
    /// Known only from the engine's list, because Docker has not answered its inspect yet.
    Listed(ListedState),
    /// The engine reports a state that dockbridge does not know.
    Unknown,
}

/// The state of a container in the engine's list (`GET /containers/json`), which has neither times nor
/// causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedState {
    /// Never started, or the start failed. The list does not distinguish them.
    Created,
    /// Running (or paused, or restarting).
    Running,
    Exited {
        /// Exit code of the main process, if the list has it.
        exit_code: Option<i32>,
    },
}

impl Process {
    /// The name of its state, for metrics and the state dump.
    pub const fn state_name(&self) -> &'static str {
        match self {
            Self::Created | Self::Listed(ListedState::Created) => "created",
            Self::Running { .. } | Self::Listed(ListedState::Running) => "running",
            Self::Exited { .. } | Self::Listed(ListedState::Exited { .. }) => "exited",
            Self::Unknown => "unknown",
        }
    }

    /// Whether a process exists.
    pub const fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. } | Self::Listed(ListedState::Running))
    }

    /// Whether its process is known to have ended.
    pub const fn has_ended(&self) -> bool {
        matches!(self, Self::Exited { .. } | Self::Listed(ListedState::Exited { .. }))
    }

    /// Whether this state is from the engine's list, because the engine has not answered an inspect yet.
    pub const fn is_listed(&self) -> bool {
        matches!(self, Self::Listed(_))
    }

    /// Whether the engine's list, which is newer, contradicts this state. A list only distinguishes
    /// created, running and exited.
    pub const fn contradicts(&self, listed: ListedState) -> bool {
        !matches!(
            (self, listed),
            (Self::Created | Self::Listed(ListedState::Created), ListedState::Created)
                // After a failed start the list still says created.
                | (Self::Exited { reason: ExitReason::CannotRun, .. }, ListedState::Created)
                | (Self::Running { .. } | Self::Listed(ListedState::Running), ListedState::Running)
                | (Self::Exited { .. } | Self::Listed(ListedState::Exited { .. }), ListedState::Exited { .. })
        )
    }

    /// When it was started, if it was.
    pub const fn started_at(&self) -> Option<Nanos> {
        match self {
            Self::Running { started_at, .. } | Self::Exited { started_at, .. } => Some(*started_at),
            Self::Created | Self::Listed(_) | Self::Unknown => None,
        }
    }

    /// Host pid while it runs. None while Docker restarts it.
    pub const fn pid(&self) -> Option<u32> {
        match self {
            Self::Running { pid, .. } if *pid > 0 => Some(*pid),
            _ => None,
        }
    }
}

/// `ContainerStatus.reason` of an ended container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// Exit code 0.
    Completed,
    /// Exit code other than 0.
    Error,
    /// The kernel killed it, or one of its processes, because memory ran out.
    OomKilled,
    /// The main process could not be started.
    CannotRun,
}

impl ExitReason {
    /// The name that kubelet shows.
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
    /// The id, which is the same in all answers.
    pub id: ImageId,
    /// `repository:tag` names, without Docker's `<none>`.
    pub repo_tags: Vec<String>,
    /// `repository@digest` names, without Docker's `<none>`.
    pub repo_digests: Vec<String>,
    /// Bytes on the disk, as the engine's list counts them; never 0.
    pub size: u64,
    /// `Config.User` of the image.
    pub user: String,
    pub labels: std::collections::BTreeMap<String, String>,
    /// `Config.StopSignal` of the image.
    pub stop_signal: Option<String>,
    /// `Config.Volumes` of the image: paths in its containers.
    pub volumes: std::collections::BTreeSet<String>,
    /// Whether the engine has answered an inspect of it. The engine's list has no user, stop signal or volumes.
    pub inspected: bool,
}

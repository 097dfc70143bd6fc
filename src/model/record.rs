//! What is true of a sandbox, a container or an image now. Records are facts; readiness and
//! states are derived from them, never stored beside them.

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

/// A sandbox: Docker's facts joined with the checkpoint's.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxRecord {
    /// Docker id of the pause container.
    pub id: SandboxId,
    /// Full container name in Docker, without the leading slash.
    pub name: String,
    pub document: Arc<SandboxDocument>,
    /// When Docker created it.
    pub created_at: Nanos,
    /// The pause process according to Docker; none when Docker no longer has the container and only
    /// the checkpoint says that its network must be released.
    pub process: Option<Process>,
    /// Addresses from Docker itself ([`NetworkMode::Docker`]).
    pub engine_addresses: Vec<IpAddr>,
    /// The state of CNI ([`NetworkMode::Cni`]); none before the intent was recorded.
    pub attachment: Option<Attachment>,
}

/// Whether a sandbox can hold containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SandboxState {
    /// Its pause runs and its network is up. Connecting is the last step of RunPodSandbox, so
    /// a half-made sandbox is never ready.
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

    /// Addresses of the pod, primary first. Empty for host-network pods (kubelet fills in the
    /// node's) and for pods that are not ready.
    pub fn addresses(&self) -> &[IpAddr] {
        match (self.document.network, &self.attachment) {
            (NetworkMode::Host, _) | (NetworkMode::Cni, None) => &[],
            (NetworkMode::Docker, _) => &self.engine_addresses,
            (NetworkMode::Cni, Some(attachment)) => attachment.addresses(),
        }
    }

    /// The pod as a container is created in it. What is unknown of an adopted pod comes from the
    /// container's request, with which callers send the pod's DNS and ID mappings.
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
        // cri-dockerd also left the engine's file alone for an empty configuration.
        spec.dns = dns.filter(|dns| *dns != DnsConfig::default());
        spec.namespaces.users = users;
        Arc::new(record)
    }

    /// Whether its process is the one that was connected, as far as anybody knows: started anew, as
    /// with `docker restart`, it has a namespace of its own that nothing is connected to.
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
    /// When Docker created it.
    pub created_at: Nanos,
    /// Its process according to Docker.
    pub process: Process,
    /// The signal a stop sends: the container's own or the image's, in Docker's spelling.
    pub stop_signal: Option<String>,
    /// It has a label `signal`, which events of the engine show in place of the signal that was sent.
    pub hides_signals: bool,
    /// The engine's log file, when its driver keeps one.
    pub engine_log: Option<std::path::PathBuf>,
    /// Directory of its writable layer, if the engine's storage driver reports one.
    pub writable_layer: Option<std::path::PathBuf>,
    /// Limits as the engine knows them: no huge pages, no keys of cgroup v2.
    pub limits: Resources,
}

/// What a container of the engine is.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "taken apart at once, never kept")]
pub enum Observed {
    /// A pod's pause. What only the checkpoint knows, the attachment, is still missing.
    Sandbox(SandboxRecord),
    /// A workload of a pod.
    Container(ContainerRecord),
    /// A container of no pod.
    Foreign(ForeignContainer),
}

/// What counts of a container that is no part of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignContainer {
    /// What it was made of.
    pub image: Option<ImageId>,
    /// The container whose network namespace it has joined: perhaps a pod's.
    pub joined: Option<SandboxId>,
}

impl From<Option<ImageId>> for ForeignContainer {
    fn from(image: Option<ImageId>) -> Self {
        Self { image, joined: None }
    }
}

/// A container's main process according to Docker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Process {
    Created,
    /// Running (or paused, or restarting).
    Running {
        /// Host pid of the main process.
        pid: u32,
        started_at: Nanos,
    },
    /// Ended, or never got off the ground.
    Exited {
        /// Start time; equals the creation time when the start failed.
        started_at: Nanos,
        finished_at: Nanos,
        /// Exit code of the main process.
        exit_code: i32,
        /// The reason, as kubelet knows it.
        reason: ExitReason,
        /// The engine's message, e.g. why the start failed.
        message: String,
    },
    /// From the engine's list: its inspect has not answered yet.
    Listed(ListedState),
    /// The engine reports a state that dockbridge does not know.
    Unknown,
}

/// The state of a container in the engine's list (`GET /containers/json`), which knows neither times
/// nor causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedState {
    /// Never started; or its start failed, which the list does not say.
    Created,
    /// Running (or paused, or restarting).
    Running,
    Exited {
        /// Exit code of the main process, where the list has it.
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

    /// Whether a process is there.
    pub const fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. } | Self::Listed(ListedState::Running))
    }

    /// Whether its process was seen to be over.
    pub const fn has_ended(&self) -> bool {
        matches!(self, Self::Exited { .. } | Self::Listed(ListedState::Exited { .. }))
    }

    /// Whether only the engine's list is known of it, not its inspect.
    pub const fn is_listed(&self) -> bool {
        matches!(self, Self::Listed(_))
    }

    /// Whether the engine's list, being newer, contradicts it: created, running and ended are all a
    /// list can distinguish.
    pub const fn contradicts(&self, listed: ListedState) -> bool {
        !matches!(
            (self, listed),
            (Self::Created | Self::Listed(ListedState::Created), ListedState::Created)
                // A start that failed: the list goes on saying created.
                | (Self::Exited { reason: ExitReason::CannotRun, .. }, ListedState::Created)
                | (Self::Running { .. } | Self::Listed(ListedState::Running), ListedState::Running)
                | (Self::Exited { .. } | Self::Listed(ListedState::Exited { .. }), ListedState::Exited { .. })
        )
    }

    /// When it was started; none before.
    pub const fn started_at(&self) -> Option<Nanos> {
        match self {
            Self::Running { started_at, .. } | Self::Exited { started_at, .. } => Some(*started_at),
            Self::Created | Self::Listed(_) | Self::Unknown => None,
        }
    }

    /// Host pid while running; none while Docker restarts it.
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
    /// The kernel killed it, or a process in it, for lack of memory.
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

/// An image of the engine's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRecord {
    /// The one identifier used everywhere.
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
    /// Whether its inspect has answered; the engine's list has neither user, nor stop signal, nor
    /// volumes.
    pub inspected: bool,
}

//! Facts about the Docker Engine.

use std::{collections::BTreeMap, fmt, path::PathBuf, slice, str::FromStr};

use thiserror::Error;

use super::{id::ImageId, oci_edits, record::Observed, sandbox::DEFAULT_HANDLER};

/// A version of the Engine API, for example 1.45.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiVersion {
    pub major: u16,
    pub minor: u16,
}

impl ApiVersion {
    /// The API of Docker 20.10, the oldest engine that dockbridge supports.
    pub const OLDEST: Self = Self::new(41);
    /// The newest API version that dockbridge knows. If the engine has a newer one, dockbridge uses `NEWEST`.
    pub const NEWEST: Self = Self::new(55);
    /// Since this version (Docker 23.0), a request to `/system/df` can be limited to the usage of images.
    pub const DISK_USAGE_BY_TYPE: Self = Self::new(42);
    /// Since this version (Docker 23.0), the engine creates missing mount sources if a request asks for it.
    pub const MAKES_MOUNT_SOURCES: Self = Self::new(42);
    /// Since this version (Docker 23.0), the create request of an exec can have the size of its terminal.
    pub const EXEC_SIZE: Self = Self::new(42);
    /// The engine knows `seccomp=builtin` since Docker 23.0. Docker 20.10 would read `builtin` as a profile's text.
    pub const SECCOMP_BUILTIN: Self = Self::new(42);
    /// Since this version (Docker 24.0), a container can have OCI annotations.
    pub const ANNOTATIONS: Self = Self::new(43);
    /// Since this version (Docker 25.0), read-only bind mounts are by default recursively read-only, if possible.
    pub const RECURSIVE_READ_ONLY: Self = Self::new(44);
    /// Since this version (Docker 28.0), pulls with containerd's image store read `hosts.toml`.
    pub const HOSTS_FILES: Self = Self::new(48);
    /// Since this version (Docker 28.0), images can be mounted into containers.
    pub const IMAGE_MOUNTS: Self = Self::new(48);

    /// Since Docker 29.7, containerd's image store downloads only a few layers at a time, for all pulls together.
    pub const LIMITS_DOWNLOADS: Self = Self::new(55);

    /// Version 1.`minor`.
    pub const fn new(minor: u16) -> Self {
        Self { major: 1, minor }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The error for a text that is not an API version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not an engine API version: {0:?}")]
pub struct InvalidApiVersion(pub String);

impl FromStr for ApiVersion {
    type Err = InvalidApiVersion;

    fn from_str(text: &str) -> Result<Self, InvalidApiVersion> {
        let wrong = || InvalidApiVersion(text.to_owned());
        let (major, minor) = text.trim().split_once('.').ok_or_else(wrong)?;
        Ok(Self {
            major: major.parse().map_err(|_| wrong())?,
            minor: minor.parse().map_err(|_| wrong())?,
        })
    }
}

/// How the engine manages cgroups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CgroupDriver {
    #[default]
    Cgroupfs,
    Systemd,
    /// The engine does not manage cgroups (rootless without delegation), so pods cannot have limits.
    None,
}

/// The properties of an engine that dockbridge uses, mainly from its `/version` and `/info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// The release of the engine, for example `26.1.5`, or `unknown`.
    pub version: String,
    pub api: ApiVersion,
    pub cgroup_driver: CgroupDriver,
    pub cgroup_version: u8,
    pub root_dir: PathBuf,
    /// Whether the engine stores images in containerd's image store instead of with a graph driver.
    pub containerd_store: bool,
    pub storage_driver: String,
    /// The socket of the engine's containerd; None if the engine does not report it (before Docker 27.0).
    pub containerd_socket: Option<PathBuf>,
    /// Whether Docker filters packets with nftables instead of iptables.
    pub nftables: bool,
    /// The mirrors of Docker Hub in Docker's setting `registry-mirrors`.
    pub hub_mirrors: Vec<String>,
    /// Whether Docker itself serves NRI plugins (setting `nri-opts`, since Docker 29.1).
    pub serves_nri: bool,
    /// The engine's OCI runtimes by name. dockbridge's OCI runtime has the name [`oci_edits::RUNTIME`].
    pub runtimes: BTreeMap<String, OciRuntime>,
    pub default_runtime: String,
    /// The `SecurityOptions` of `/info`, for example `name=apparmor`, unchanged.
    pub security_options: Vec<String>,
    pub log_driver: String,
    pub live_restore: bool,
    pub kernel: String,
    /// The directories from which the engine reads CDI specifications; empty if it reads none.
    pub cdi_spec_dirs: Vec<String>,
    pub warnings: Vec<String>,
    /// The `ID` of `/info`. With Docker 20.10, several engines of a host can have the same id.
    pub daemon_id: String,
    /// Containers that the engine does not list because its image store was switched.
    pub other_store: Option<OtherStore>,
}

/// The containers of another image store in the engine's data root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherStore {
    pub driver: String,
    pub containers: usize,
    /// How many of the containers are pause containers of pods.
    pub pods: usize,
    /// How many of the containers still run: with `live-restore`, containers survive a switch of the image store.
    pub running: usize,
}

impl OtherStore {
    /// The settings in `daemon.json` with which the engine lists these containers again.
    pub fn way_back(&self) -> String {
        let is_containerds = !GRAPH_DRIVERS.contains(&self.driver.as_str());
        format!(
            "set \"features\": {{\"containerd-snapshotter\": {is_containerds}}} and \"storage-driver\": \
             {:?} in daemon.json and restart Docker",
            self.driver
        )
    }
}

impl fmt::Display for OtherStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { driver, containers, pods, running } = self;
        write!(
            f,
            "Docker's image store is no longer {driver}: hidden containers: {containers}, pods among them: \
             {pods}, containers still running: {running}"
        )
    }
}

/// An OCI runtime of the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OciRuntime {
    /// The path or name of the runtime's program; empty for a containerd shim.
    pub path: String,
    /// The arguments that the engine passes in each call of the runtime, before the call's own arguments.
    pub arguments: Vec<String>,
    /// The runtime's features (a JSON document of the OCI runtime specification), if the engine reports them.
    pub features: Option<serde_json::Value>,
}

impl OciRuntime {
    /// Whether the runtime is runc, or a program that calls runc, as NVIDIA's does, and so reports runc's features.
    /// False with engines before Docker 25.0, which do not report features.
    pub fn ends_in_runc(&self) -> bool {
        !self.path.is_empty() && self.features.as_ref().is_some_and(are_of_runc)
    }
}

impl EngineInfo {
    /// Whether the engine confines containers with AppArmor.
    pub fn has_apparmor(&self) -> bool {
        self.has_option("apparmor")
    }

    /// Whether the engine labels containers with SELinux.
    pub fn has_selinux(&self) -> bool {
        self.has_option("selinux")
    }

    /// Whether the engine maps the users of containers by default (setting `userns-remap`).
    pub fn remaps_users(&self) -> bool {
        self.has_option("userns")
    }

    fn has_option(&self, name: &str) -> bool {
        self.security_options.iter().any(|option| {
            option.split(',').next().and_then(|first| first.strip_prefix("name=")) == Some(name)
        })
    }

    /// The name of the engine's OCI runtime for a runtime handler.
    pub fn runtime_of<'a>(&'a self, handler: &'a str) -> &'a str {
        if ["", DEFAULT_HANDLER].contains(&handler) { &self.default_runtime } else { handler }
    }

    /// Whether pods with this handler can use features that need dockbridge's OCI runtime. The error says why not.
    pub fn edits_runtime(&self, handler: &str) -> Result<(), &'static str> {
        self.below(handler).map(drop)
    }

    /// The program and arguments of the OCI runtime that dockbridge's OCI runtime calls for pods with this
    /// runtime handler. An empty list means the OCI runtime that dockbridge's OCI runtime calls by default.
    /// Fails with the reason why pods with this handler cannot use dockbridge's OCI runtime.
    pub fn below(&self, handler: &str) -> Result<Vec<String>, &'static str> {
        if self.api < ApiVersion::ANNOTATIONS {
            return Err(
                "the Engine API lacks this feature; dockbridge-runtime, which has it, needs Docker 24.0 or \
                 newer",
            );
        }
        if !self.runtimes.contains_key(oci_edits::RUNTIME) {
            return Err(
                "the Engine API lacks this feature; `dockbridge setup` adds dockbridge-runtime, which has it",
            );
        }
        let name = self.runtime_of(handler);
        if [RUNC, oci_edits::RUNTIME].contains(&name) {
            return Ok(Vec::new());
        }
        let runtime = self.runtimes.get(name).filter(|runtime| runtime.ends_in_runc());
        let runtime = runtime.ok_or(
            "the Engine API lacks this feature, and dockbridge-runtime has it only if the handler's runtime \
             is runc or reports in `docker info` that it runs runc",
        )?;
        Ok([slice::from_ref(&runtime.path), &runtime.arguments].concat())
    }

    /// Whether pods with this runtime handler can have a user namespace. The error says why not.
    pub fn maps_users(&self, handler: &str) -> Result<(), &'static str> {
        if self.below(handler)?.is_empty() && self.has_other_than_runc() {
            return Err(
                "dockbridge-runtime runs another OCI runtime than runc; `dockbridge setup` without --runtime changes this",
            );
        }
        if self.remaps_users() {
            return Err("the engine already maps container users (userns-remap)");
        }
        if !OVERLAYS.contains(&self.storage_driver.as_str()) {
            return Err("the engine's storage driver has to be overlay2 or overlayfs");
        }
        if kernel_release(&self.kernel) < Some(KERNEL_WITH_MAPPED_LAYERS) {
            return Err("overlays of id-mapped layers need Linux 5.19");
        }
        Ok(())
    }

    /// Whether dockbridge's OCI runtime calls a runtime other than runc by default, according to its reported features.
    /// Without reported features, a registration with arguments counts as another runtime. With crun, root of a user
    /// namespace could remove `nodev` and read-only from a mount, and open device files in an image.
    fn has_other_than_runc(&self) -> bool {
        let ours = self.runtimes.get(oci_edits::RUNTIME);
        ours.is_some_and(|ours| match &ours.features {
            Some(features) => !are_of_runc(features),
            None => !ours.arguments.is_empty(),
        })
    }

    /// Whether the engine, the kernel and this handler's OCI runtime can make mounts recursively read-only.
    pub fn recursive_read_only(&self, handler: &str) -> bool {
        let listed = self
            .runtimes
            .get(self.runtime_of(handler))
            .and_then(|runtime| runtime.features.as_ref()?.get("mountOptions")?.as_array())
            .is_some_and(|options| options.iter().any(|option| option == "rro"));
        listed
            && self.api >= ApiVersion::RECURSIVE_READ_ONLY
            && kernel_release(&self.kernel) >= Some(KERNEL_WITH_RRO)
    }

    /// Whether dockbridge's OCI runtime can make mounts recursively read-only and must, as the engine is too old.
    pub fn edits_read_only(&self, handler: &str) -> bool {
        self.api < ApiVersion::RECURSIVE_READ_ONLY
            && self.edits_runtime(handler).is_ok()
            && kernel_release(&self.kernel) >= Some(KERNEL_WITH_RRO)
    }
}

/// The major and minor version of a kernel release such as `6.1.0-13-amd64`.
fn kernel_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whether runc reported these features. Sysbox reports a version of runc, but no commit of runc.
fn are_of_runc(features: &serde_json::Value) -> bool {
    OF_RUNC.iter().all(|annotation| features.pointer(annotation).is_some())
}

const OF_RUNC: [&str; 2] =
    ["/annotations/org.opencontainers.runc.version", "/annotations/org.opencontainers.runc.commit"];
/// The first kernel with `mount_setattr` and `AT_RECURSIVE`.
const KERNEL_WITH_RRO: (u32, u32) = (5, 12);
/// The first kernel whose overlays support id-mapped layers.
const KERNEL_WITH_MAPPED_LAYERS: (u32, u32) = (5, 19);
/// Storage drivers with overlays as root file systems: a graph driver of Docker and a snapshotter of containerd.
const OVERLAYS: [&str; 2] = ["overlay2", "overlayfs"];
const RUNC: &str = "runc";
/// The storage drivers of Docker's own image store. A driver that is not in this list is a snapshotter of containerd.
const GRAPH_DRIVERS: [&str; 8] =
    ["overlay2", "overlay", "aufs", "btrfs", "zfs", "vfs", "devicemapper", "fuse-overlayfs"];

/// Whether the engine can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineHealth {
    /// dockbridge cannot list containers yet, and neither the connection nor the last ping has failed.
    Starting,
    /// The event stream is open, the last ping has not failed, and dockbridge can list containers. After a reconnect,
    /// the inspects of the listed objects have also ended, or are slow.
    Reachable,
    /// The connection or the last ping failed. After a reconnect, the engine also counts as unreachable until
    /// dockbridge has read the containers and images again.
    Unreachable { reason: String },
}

/// A container in the engine's list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedContainer {
    pub id: String,
    /// The image from which the container was created.
    pub image: Option<ImageId>,
    pub ownership: Ownership,
    /// The properties of the container in the list. `observed` is None only in tests.
    pub observed: Option<Box<Observed>>,
}

/// Whether a container is part of a pod, according to its type label. A container's label may come from its
/// image, so only an inspect shows whether the container really belongs to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The container certainly belongs to no pod, because every container of a pod has a type label.
    None,
    Workload,
    /// The container has a type label, but not that of a workload container: for example, a pause container.
    Other,
}

/// A change that the engine reports twice if dockbridge has requested it: in its answer and as an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transition {
    /// The container was created. Its first start, or its removal, causes another event.
    Created,
    /// The container was started. Before another start the container must end, which causes another event.
    Started,
}

/// An event of the engine, which does not contain the object's state. Events may be late, repeated or lost, so only the
/// next inspect shows the true state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EngineEvent {
    /// A container was created or started.
    ContainerTransition { id: String, transition: Transition },
    /// A container may have changed in another way: for example, it ended or was renamed.
    ContainerChanged { id: String },
    /// The engine sent SIGKILL to a container's main process, for example because of `docker kill` or a stop.
    ContainerKilled { id: String },
    /// The OOM killer killed a process of a container.
    ContainerOom { id: String },
    /// A container was removed.
    ContainerGone { id: String },
    /// An image or one of its names may have been added or removed. `name` is an id or a reference.
    ImageChanged { name: String },
    /// dockerd has read its configuration again.
    DaemonReloaded,
    /// An event that dockbridge cannot read. After it, only a new list of all objects shows what has changed.
    Unreadable { reason: String },
}

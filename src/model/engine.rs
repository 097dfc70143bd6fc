//! Facts about the Docker Engine.

use std::{collections::BTreeMap, fmt, path::PathBuf, slice, str::FromStr};

use thiserror::Error;

use super::{id::ImageId, oci_edits, record::Observed, sandbox::DEFAULT_HANDLER};

/// A version of the Engine API, e.g. 1.45.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiVersion {
    /// Always 1 so far.
    pub major: u16,
    /// Grows with each release.
    pub minor: u16,
}

impl ApiVersion {
    /// 20.10: the oldest engine served.
    pub const OLDEST: Self = Self::new(41);
    /// The newest version that dockbridge knows. Newer engines are also used with this version.
    pub const NEWEST: Self = Self::new(55);
    /// From here on, `/system/df` can return only a part (23.0).
    pub const DISK_USAGE_BY_TYPE: Self = Self::new(42);
    /// From here on, the engine creates missing mount sources (23.0).
    pub const MAKES_MOUNT_SOURCES: Self = Self::new(42);
    /// From here on, `seccomp=builtin` is known (23.0). 20.10 would read `builtin` as the text of a
    /// profile.
    pub const SECCOMP_BUILTIN: Self = Self::new(42);
    /// From here on, a container can have OCI annotations (24.0).
    pub const ANNOTATIONS: Self = Self::new(43);
    /// From here on, read-only binds are recursive by default (25.0).
    pub const RECURSIVE_READ_ONLY: Self = Self::new(44);
    /// From here on, pulls with containerd's store read `hosts.toml` (28.0).
    pub const HOSTS_FILES: Self = Self::new(48);
    /// From here on, images can be mounted (28.0).
    pub const IMAGE_MOUNTS: Self = Self::new(48);

    /// From here on, containerd's store does a few downloads at a time, for all pulls together (29.7).
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

/// Not an API version.
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
    /// Not at all (rootless without delegation): pods cannot be limited.
    None,
}

/// The fields of the engine's `/version` and `/info` that dockbridge uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// Release, e.g. `26.1.5`; never empty.
    pub version: String,
    pub api: ApiVersion,
    pub cgroup_driver: CgroupDriver,
    pub cgroup_version: u8,
    pub root_dir: PathBuf,
    /// Images are in containerd's content store instead of a graph driver.
    pub containerd_store: bool,
    pub storage_driver: String,
    /// The socket of its containerd; none if the engine does not report it (before 27.0).
    pub containerd_socket: Option<PathBuf>,
    /// Docker filters packets with nftables instead of iptables.
    pub nftables: bool,
    /// Mirrors of Docker Hub (`registry-mirrors`).
    pub hub_mirrors: Vec<String>,
    /// Docker serves NRI plugins itself (since 29.1, `nri-opts`).
    pub serves_nri: bool,
    /// OCI runtimes by name. Our own is [`oci_edits::RUNTIME`].
    pub runtimes: BTreeMap<String, OciRuntime>,
    pub default_runtime: String,
    /// `SecurityOptions`, e.g. `name=apparmor`, verbatim.
    pub security_options: Vec<String>,
    pub log_driver: String,
    /// Pods keep running while the daemon restarts.
    pub live_restore: bool,
    pub kernel: String,
    /// CDI specification directories; empty if CDI is off.
    pub cdi_spec_dirs: Vec<String>,
    pub warnings: Vec<String>,
    /// Identifier of the daemon's data root (`/info` ID).
    pub daemon_id: String,
    /// Containers that it does not list because its image store was switched.
    pub other_store: Option<OtherStore>,
}

/// Containers of another image store in the engine's data root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherStore {
    /// The storage driver of this store.
    pub driver: String,
    pub containers: usize,
    /// How many of them are pods.
    pub pods: usize,
    /// How many of them still run: with `live-restore`, the switch does not end them.
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
             {pods}, still running: {running}"
        )
    }
}

/// One of the engine's OCI runtimes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OciRuntime {
    /// The program; empty for a shim of containerd.
    pub path: String,
    /// The arguments that the engine puts before those of each call.
    pub arguments: Vec<String>,
    /// The features document of the runtime-spec, if the engine reports it.
    pub features: Option<serde_json::Value>,
}

impl OciRuntime {
    /// Whether its calls end in runc: runc, or a program that answers `features` by running runc, as NVIDIA's
    /// does. gVisor, crun, Kata and Sysbox do not. Docker before 25.0 does not report features.
    pub fn ends_in_runc(&self) -> bool {
        !self.path.is_empty() && self.features.as_ref().is_some_and(are_of_runc)
    }
}

impl EngineInfo {
    /// Whether it confines containers with AppArmor.
    pub fn has_apparmor(&self) -> bool {
        self.has_option("apparmor")
    }

    /// Whether it labels containers with SELinux.
    pub fn has_selinux(&self) -> bool {
        self.has_option("selinux")
    }

    /// Whether it maps the users of all containers (userns-remap).
    pub fn remaps_users(&self) -> bool {
        self.has_option("userns")
    }

    /// Whether the engine lists a security option, e.g. `name=apparmor` or `name=seccomp,profile=…`.
    fn has_option(&self, name: &str) -> bool {
        self.security_options.iter().any(|option| {
            option.split(',').next().and_then(|first| first.strip_prefix("name=")) == Some(name)
        })
    }

    /// The name of the engine's runtime for a handler.
    pub fn runtime_of<'a>(&'a self, handler: &'a str) -> &'a str {
        if ["", DEFAULT_HANDLER].contains(&handler) { &self.default_runtime } else { handler }
    }

    /// Whether pods with this handler can use features that only our OCI runtime supports.
    pub fn edits_runtime(&self, handler: &str) -> Result<(), &'static str> {
        self.below(handler).map(drop)
    }

    /// The program and arguments of the runtime that our OCI runtime runs for pods with this handler. Empty for
    /// the one with which it was registered. Fails with the reason why pods with this handler cannot use our OCI
    /// runtime.
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

    /// Whether pods with this handler can have a user namespace.
    pub fn maps_users(&self, handler: &str) -> Result<(), &'static str> {
        if self.below(handler)?.is_empty() && self.has_other_than_runc() {
            return Err(
                "dockbridge-runtime has to run runc; `dockbridge setup` without --runtime sets runc",
            );
        }
        if self.remaps_users() {
            return Err("the engine maps the users of all containers (userns-remap)");
        }
        if !OVERLAYS.contains(&self.storage_driver.as_str()) {
            return Err("the engine's storage driver has to be overlay2 or overlayfs");
        }
        if kernel_release(&self.kernel) < Some(KERNEL_WITH_MAPPED_LAYERS) {
            return Err("overlays of mapped layers need Linux 5.19");
        }
        Ok(())
    }

    /// Whether our OCI runtime runs another runtime than runc. Its features show this. If the engine does
    /// not report them, its arguments do. With crun, the root of a user namespace could remove `nodev` and
    /// read-only from a mount, and open device files in an image.
    fn has_other_than_runc(&self) -> bool {
        let ours = self.runtimes.get(oci_edits::RUNTIME);
        ours.is_some_and(|ours| match &ours.features {
            Some(features) => !are_of_runc(features),
            None => !ours.arguments.is_empty(),
        })
    }

    /// Whether the runtime of this handler can make mounts recursively read-only.
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

    /// Whether our OCI runtime makes mounts recursively read-only because the engine is too old for it.
    pub fn edits_read_only(&self, handler: &str) -> bool {
        self.api < ApiVersion::RECURSIVE_READ_ONLY
            && self.edits_runtime(handler).is_ok()
            && kernel_release(&self.kernel) >= Some(KERNEL_WITH_RRO)
    }
}

/// Major and minor version of a kernel release such as `6.1.0-13-amd64`.
fn kernel_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whether runc reported these features. Others may report the version of runc that they resemble, as Sysbox does,
/// but no commit of runc.
fn are_of_runc(features: &serde_json::Value) -> bool {
    OF_RUNC.iter().all(|annotation| features.pointer(annotation).is_some())
}

const OF_RUNC: [&str; 2] =
    ["/annotations/org.opencontainers.runc.version", "/annotations/org.opencontainers.runc.commit"];
/// `mount_setattr` with `AT_RECURSIVE` came with 5.12.
const KERNEL_WITH_RRO: (u32, u32) = (5, 12);
/// Overlays support id-mapped layers from here on.
const KERNEL_WITH_MAPPED_LAYERS: (u32, u32) = (5, 19);
/// Storage drivers whose root file systems are overlays, for the graph driver and for containerd's store.
const OVERLAYS: [&str; 2] = ["overlay2", "overlayfs"];
const RUNC: &str = "runc";
/// The storage drivers of Docker's own image store. Others are snapshotters of containerd.
const GRAPH_DRIVERS: [&str; 8] =
    ["overlay2", "overlay", "aufs", "btrfs", "zfs", "vfs", "devicemapper", "fuse-overlayfs"];

/// Whether the engine can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineHealth {
    /// Not known yet.
    Starting,
    /// The event stream is open and the first list has arrived.
    Reachable,
    /// It does not answer.
    Unreachable { reason: String },
}

/// A container as the engine's list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedContainer {
    pub id: String,
    /// The image that it was created from.
    pub image: Option<ImageId>,
    pub ownership: Ownership,
    /// What the list says about it. None if its entry is incomplete.
    pub observed: Option<Box<Observed>>,
}

/// Whose a container is by its labels. Labels may come from an image, so only an inspect shows
/// whether this is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Not part of a pod. This is certain, because dockbridge's own containers have labels.
    None,
    Workload,
    /// Another part of a pod.
    Other,
}

/// A change that the caller requested from the engine, so that its event brings nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transition {
    /// It was created. It is complete when the event arrives.
    Created,
    /// It was started. It must end before it can be started again, and the end is another event.
    Started,
}

/// Something changed in the engine, so an object has to be inspected again.
///
/// An event does not have the object's state. Events may be late, repeated or lost, so the next inspect is
/// the only source of truth.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EngineEvent {
    /// A container was created or started.
    ContainerTransition { id: String, transition: Transition },
    /// A container ended, was renamed, or changed in another way.
    ContainerChanged { id: String },
    /// The engine sent SIGKILL to a container's main process because a client asked for it.
    ContainerKilled { id: String },
    /// The OOM killer killed a process of a container.
    ContainerOom { id: String },
    /// A container was removed.
    ContainerGone { id: String },
    /// An image was added or removed, or one of its names was. The name is an id or a reference.
    ImageChanged { name: String },
    /// The daemon has read its configuration again.
    DaemonReloaded,
    /// An event that dockbridge cannot read. Only a list shows what changed.
    Unreadable { reason: String },
}

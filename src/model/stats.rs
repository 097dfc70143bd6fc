//! Resource usage of containers and pods: what the kernel counts, and the sizes of writable layers.
//!
//! A figure is `None` if the kernel lacks it, dockbridge cannot read it, or the caller did not request it ([`Detail`]).

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use super::{
    record::{ContainerRecord, SandboxRecord},
    time::Nanos,
};

/// Which figures dockbridge reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The figures in the CRI statistics, and other figures in the files that dockbridge reads for them.
    Usage,
    /// The figures in the CRI statistics, and those in the CRI metrics of pods and containers.
    Everything,
}

/// Resource usage of a container.
#[derive(Clone, Debug)]
pub struct ContainerReading {
    pub record: Arc<ContainerRecord>,
    /// Usage of the container's cgroup. Has no figures while dockbridge finds no cgroup of the container.
    pub group: GroupReading,
    /// Only with [`Detail::Everything`].
    pub processes: Option<ProcessReading>,
    /// Size of the writable layer. `None` until dockbridge has measured it, and after the container has ended.
    pub layer: Option<LayerReading>,
}

/// Resource usage of a pod.
#[derive(Clone, Debug)]
pub struct PodReading {
    pub record: Arc<SandboxRecord>,
    /// Usage of the pod's cgroup or, for a pod without its own cgroup, the sum over the cgroups of its pause container
    /// and its running containers. Has no figures if dockbridge finds no cgroup of the pause container. The sum also
    /// has no figures while dockbridge knows a running container of the pod only from Docker's list.
    pub group: GroupReading,
    /// `None` if unknown, or if the pod uses the host's network.
    pub network: Option<NetworkReading>,
    /// Newest first.
    pub containers: Vec<ContainerReading>,
}

impl PodReading {
    /// A pod whose usage is unknown.
    pub fn unknown(record: &Arc<SandboxRecord>) -> Self {
        Self {
            record: Arc::clone(record),
            group: GroupReading::default(),
            network: None,
            containers: Vec::new(),
        }
    }
}

/// Usage of a cgroup, or the sum of the usage of several cgroups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupReading {
    pub cpu: Option<CpuReading>,
    pub memory: Option<MemoryReading>,
    pub swap: Option<SwapReading>,
    pub io: Option<IoReading>,
    pub pids: Option<PidsReading>,
    pub hugepages: Vec<HugepageReading>,
}

/// Processor time. Times are in nanoseconds, except those of the quota and of the pressure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuReading {
    pub at: Nanos,
    /// Processor time since the cgroup was created, as the sum over all processors.
    pub usage: u64,
    /// Processor time per second between two readings at least 0.9 seconds apart, `None` before the second of them.
    /// 1,000,000,000 means one fully used processor.
    pub nano_cores: Option<u64>,
    pub user: Option<u64>,
    pub system: Option<u64>,
    /// Number of quota periods in which a process of the cgroup wanted to run.
    pub periods: Option<u64>,
    /// Number of quota periods in which the kernel throttled the cgroup.
    pub throttled_periods: Option<u64>,
    pub throttled: Option<u64>,
    /// Allowed processor time per quota period, in microseconds; only with [`Detail::Everything`].
    pub quota: Option<Limit>,
    /// Length of a quota period in microseconds; only with [`Detail::Everything`].
    pub period: Option<u64>,
    /// The cgroup's CPU weight on the cgroup v1 scale, by default 1024; only with [`Detail::Everything`].
    pub shares: Option<u64>,
    pub pressure: Option<Pressure>,
}

/// Memory, in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryReading {
    pub at: Nanos,
    /// Memory of the cgroup, including the page cache.
    pub usage: u64,
    /// Memory without the inactive page cache, which the kernel can reclaim cheaply.
    pub working_set: u64,
    /// Memory limit minus working set. `None` if the cgroup has no limit that is lower than the machine's memory.
    pub available: Option<u64>,
    pub rss: Option<u64>,
    pub cache: Option<u64>,
    pub active_file: Option<u64>,
    /// Page cache that was not used recently.
    pub inactive_file: Option<u64>,
    pub mapped_file: Option<u64>,
    pub kernel: Option<u64>,
    pub peak: Option<u64>,
    /// How often the cgroup, or with cgroup v2 also one below it, reached its memory limit.
    pub limit_hits: Option<u64>,
    pub oom_kills: Option<u64>,
    /// Page faults of the cgroup and of the cgroups below it.
    pub faults: Option<u64>,
    /// Page faults that needed the disk, of the cgroup and of the cgroups below it.
    pub major_faults: Option<u64>,
    /// Page faults of the cgroup itself, without the cgroups below it; only cgroup v1 counts them separately.
    pub own_faults: Option<u64>,
    /// Page faults of the cgroup itself that needed the disk.
    pub own_major_faults: Option<u64>,
    pub limit: Option<Limit>,
    /// The limit for memory and swap together.
    pub swap_limit: Option<Limit>,
    /// The soft limit of cgroup v1, `memory.min` of cgroup v2; only with [`Detail::Everything`].
    pub reserved: Option<Limit>,
    pub pressure: Option<Pressure>,
}

/// A limit of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Unlimited,
    At(u64),
}

impl Limit {
    /// The limit as a number; `None` if unlimited.
    pub const fn value(self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::At(value) => Some(value),
        }
    }
}

/// Swap, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwapReading {
    pub at: Nanos,
    pub usage: u64,
    /// Swap limit minus swap usage; `None` if there is no swap limit.
    pub available: Option<u64>,
}

/// Block devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IoReading {
    pub at: Nanos,
    pub pressure: Option<Pressure>,
    /// Only with [`Detail::Everything`].
    pub devices: Vec<DeviceReading>,
}

/// Bytes and operations of a cgroup on one block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceReading {
    pub major: u32,
    pub minor: u32,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub discarded_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

/// Number of tasks (threads) in a cgroup and in the cgroups below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PidsReading {
    pub at: Nanos,
    pub tasks: u64,
    /// Only with [`Detail::Everything`].
    pub limit: Option<Limit>,
}

/// Usage of huge pages of one size, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugepageReading {
    /// Size of one huge page as the kernel names it, e.g. `2MB`.
    pub size: String,
    pub usage: u64,
    /// The highest usage so far; only cgroup v1 has it.
    pub peak: Option<u64>,
}

/// Pressure stall information: how long tasks had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Time in which at least one task waited.
    pub some: Stall,
    /// Time in which all tasks that were not idle waited; 0 in the CPU pressure if the kernel does not report it.
    pub full: Stall,
}

/// One line (`some` or `full`) of a cgroup's pressure file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    /// Waiting time since the cgroup was created, in microseconds.
    pub total: u64,
    pub avg10: f64,
    pub avg60: f64,
    pub avg300: f64,
}

/// Counters of all interfaces in a pod's network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkReading {
    pub at: Nanos,
    /// The pod's main interface, normally the one with the pod's address.
    pub default: InterfaceReading,
    pub others: Vec<InterfaceReading>,
}

/// Traffic counters of a network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceReading {
    pub name: String,
    pub received: TrafficReading,
    pub sent: TrafficReading,
}

/// Traffic of a network interface in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficReading {
    pub bytes: u64,
    pub packets: u64,
    pub errors: u64,
    pub dropped: u64,
}

/// Figures of the processes in a container's cgroup, without the cgroups below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessReading {
    pub processes: u64,
    /// Threads of at most 1,000 processes, if the kernel does not count them ([`GroupReading::pids`]); otherwise 0.
    pub threads: u64,
    /// Number of open file descriptors of all processes; `None` if there are too many to count.
    pub descriptors: Option<u64>,
    pub sockets: Option<u64>,
    /// Soft limit for open files of the container's main process.
    pub open_files_limit: Option<u64>,
}

/// Size of a container's writable layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerReading {
    pub at: Nanos,
    /// The path that ImageFsInfo reports as the `mountpoint` of the image file system.
    pub mountpoint: PathBuf,
    pub bytes: u64,
    pub inodes: u64,
}

/// The disks of this machine. cgroups name a disk by its device number, and metrics by its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disks {
    /// Paths such as `/dev/sda`, by device number.
    pub names: BTreeMap<(u32, u32), String>,
    /// The file system with the containers' writable layers; `None` while dockbridge cannot read its size.
    pub layers: Option<DiskReading>,
}

/// A file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskReading {
    pub device: String,
    pub bytes: u64,
    /// Total number of inodes; 0 if the file system has no limit for inodes.
    pub inodes: u64,
    pub free_inodes: u64,
}

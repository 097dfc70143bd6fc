//! Resource usage of containers and pods, as the kernel counts it.
//!
//! A figure is none if the kernel does not keep it, or if this detail was not requested ([`Detail`]).
//! Figures are read and never estimated.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use super::{
    record::{ContainerRecord, SandboxRecord},
    time::Nanos,
};

/// How much is read from a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The figures in the CRI statistics.
    Usage,
    /// The figures in the CRI statistics, and all other figures of the metrics.
    Everything,
}

/// Usage of a container.
#[derive(Clone, Debug)]
pub struct ContainerReading {
    pub record: Arc<ContainerRecord>,
    /// Usage of its cgroup. All figures are none while it has no cgroup.
    pub group: GroupReading,
    /// Usage of its processes; only with [`Detail::Everything`].
    pub processes: Option<ProcessReading>,
    /// What it wrote outside of mounts. None until it was measured, and if it cannot be measured.
    pub layer: Option<LayerReading>,
}

/// Usage of a pod.
#[derive(Clone, Debug)]
pub struct PodReading {
    pub record: Arc<SandboxRecord>,
    /// Usage of the pod's cgroup, or the sum over the cgroups of its pause container and its containers.
    pub group: GroupReading,
    /// Usage of its network; none in the host's network.
    pub network: Option<NetworkReading>,
    /// Its running containers, newest first.
    pub containers: Vec<ContainerReading>,
}

impl PodReading {
    /// A pod whose usage is unknown.
    pub fn blank(record: &Arc<SandboxRecord>) -> Self {
        Self {
            record: Arc::clone(record),
            group: GroupReading::default(),
            network: None,
            containers: Vec::new(),
        }
    }
}

/// What the kernel counts for a cgroup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupReading {
    pub cpu: Option<CpuReading>,
    pub memory: Option<MemoryReading>,
    pub swap: Option<SwapReading>,
    pub io: Option<IoReading>,
    pub pids: Option<PidsReading>,
    /// Huge pages, one entry for each size; only with [`Detail::Everything`].
    pub hugepages: Vec<HugepageReading>,
}

/// Processor time. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuReading {
    pub at: Nanos,
    /// Used since the cgroup was created, over all processors.
    pub usage: u64,
    /// Recent usage per second: 1,000,000,000 is one processor in full use. None until there are two
    /// readings.
    pub nano_cores: Option<u64>,
    /// The part of the usage in user mode.
    pub user: Option<u64>,
    /// The part of the usage in the kernel.
    pub system: Option<u64>,
    /// Quota periods in which it had processes that wanted to run.
    pub periods: Option<u64>,
    /// Quota periods in which it was throttled.
    pub throttled_periods: Option<u64>,
    pub throttled: Option<u64>,
    /// How long it may run in each period, in microseconds; only with [`Detail::Everything`].
    pub quota: Option<Limit>,
    /// Length of a period in microseconds; only with [`Detail::Everything`].
    pub period: Option<u64>,
    /// Its weight on the cgroup v1 scale, usually 1024; only with [`Detail::Everything`].
    pub shares: Option<u64>,
    pub pressure: Option<Pressure>,
}

/// Memory, in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryReading {
    pub at: Nanos,
    /// All memory, including the page cache.
    pub usage: u64,
    /// Memory without the inactive page cache, which is what cannot be reclaimed cheaply.
    pub working_set: u64,
    /// What is left up to the limit. None if there is no limit below the machine's memory.
    pub available: Option<u64>,
    pub rss: Option<u64>,
    pub cache: Option<u64>,
    pub active_file: Option<u64>,
    /// Page cache that was not used recently.
    pub inactive_file: Option<u64>,
    pub mapped_file: Option<u64>,
    /// Memory that the kernel uses for the cgroup.
    pub kernel: Option<u64>,
    pub peak: Option<u64>,
    /// How often the limit was reached.
    pub limit_hits: Option<u64>,
    pub oom_kills: Option<u64>,
    /// Page faults, including those of cgroups below it.
    pub faults: Option<u64>,
    /// Page faults that needed the disk, including those of cgroups below it.
    pub major_faults: Option<u64>,
    /// Page faults of the cgroup itself. Only cgroup v1 counts them separately.
    pub own_faults: Option<u64>,
    /// Page faults of the cgroup itself that needed the disk.
    pub own_major_faults: Option<u64>,
    pub limit: Option<Limit>,
    /// The limit for memory and swap together.
    pub swap_limit: Option<Limit>,
    /// Memory that is kept when memory is short: the soft limit of cgroup v1, `memory.min` of cgroup v2.
    /// Only with [`Detail::Everything`].
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
    /// The number; none without a limit.
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
    /// What is left up to the limit; none if there is no limit.
    pub available: Option<u64>,
}

/// Block devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IoReading {
    pub at: Nanos,
    pub pressure: Option<Pressure>,
    /// By device; only with [`Detail::Everything`].
    pub devices: Vec<DeviceReading>,
}

/// Bytes and operations on a block device.
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

/// Tasks (threads) of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PidsReading {
    pub at: Nanos,
    pub tasks: u64,
    /// The limit of tasks; only with [`Detail::Everything`].
    pub limit: Option<Limit>,
}

/// Huge pages of one size, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugepageReading {
    /// The size as the kernel names it, e.g. `2MB`.
    pub size: String,
    pub usage: u64,
    /// The highest usage so far; cgroup v1 only.
    pub peak: Option<u64>,
}

/// Pressure stall information: how long tasks had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Time in which at least one task waited.
    pub some: Stall,
    /// Time in which all tasks waited. Older kernels do not report it for processors; it is then 0.
    pub full: Stall,
}

/// One line of the pressure file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    /// Since the cgroup was created, in microseconds.
    pub total: u64,
    pub avg10: f64,
    pub avg60: f64,
    pub avg300: f64,
}

/// The interfaces of a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkReading {
    pub at: Nanos,
    /// The interface with the pod's address.
    pub default: InterfaceReading,
    pub others: Vec<InterfaceReading>,
}

/// Counters of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceReading {
    pub name: String,
    pub received: TrafficReading,
    pub sent: TrafficReading,
}

/// Traffic in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficReading {
    pub bytes: u64,
    pub packets: u64,
    pub errors: u64,
    pub dropped: u64,
}

/// The processes of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessReading {
    pub processes: u64,
    /// Their threads, if the cgroup does not count tasks.
    pub threads: u64,
    /// Their open file descriptors; none if there are too many to count.
    pub descriptors: Option<u64>,
    pub sockets: Option<u64>,
    /// Soft limit of open files of the main process.
    pub open_files_limit: Option<u64>,
}

/// What a container wrote outside of mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerReading {
    /// When the measurement ended.
    pub at: Nanos,
    /// The engine's directory of layers, as ImageFsInfo names it.
    pub mountpoint: PathBuf,
    pub bytes: u64,
    pub inodes: u64,
}

/// The disks of this machine that figures of containers refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disks {
    /// Names of block devices by device number, e.g. `/dev/sda`.
    pub names: BTreeMap<(u32, u32), String>,
    /// The file system of the writable layers; none while it cannot be read.
    pub layers: Option<DiskReading>,
}

/// A file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskReading {
    pub device: String,
    pub bytes: u64,
    /// Total number of inodes; 0 if there is no limit.
    pub inodes: u64,
    pub free_inodes: u64,
}

//! What containers and pods use, as the kernel counts it.
//!
//! A figure is none where the kernel does not keep it, or where that much was not asked for
//! ([`Detail`]); a figure that is there was read, never guessed.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use super::{
    record::{ContainerRecord, SandboxRecord},
    time::Nanos,
};

/// How much is read of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What the statistics of CRI carry.
    Usage,
    /// That and everything metrics are made of.
    Everything,
}

/// What a container uses.
#[derive(Clone, Debug)]
pub struct ContainerReading {
    pub record: Arc<ContainerRecord>,
    /// Of its control group; all none while it has none.
    pub group: GroupReading,
    /// Of its processes; only with [`Detail::Everything`].
    pub processes: Option<ProcessReading>,
    /// What it wrote outside of mounts; none until it was measured, and where it cannot be.
    pub layer: Option<LayerReading>,
}

/// What a pod uses.
#[derive(Clone, Debug)]
pub struct PodReading {
    pub record: Arc<SandboxRecord>,
    /// Of the pod's control group, or the sum over the groups of its pause and its containers.
    pub group: GroupReading,
    /// Of its network; none of the host's.
    pub network: Option<NetworkReading>,
    /// Its running containers, newest first.
    pub containers: Vec<ContainerReading>,
}

impl PodReading {
    /// Nothing is known of what it uses.
    pub fn blank(record: &Arc<SandboxRecord>) -> Self {
        Self {
            record: Arc::clone(record),
            group: GroupReading::default(),
            network: None,
            containers: Vec::new(),
        }
    }
}

/// What the kernel counts for a control group.
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
    /// Used since the beginning, over all processors.
    pub usage: u64,
    /// Used in a second of late: 1,000,000,000 is one processor in full use. None until there
    /// are two readings.
    pub nano_cores: Option<u64>,
    /// Of the usage, what ran in user mode.
    pub user: Option<u64>,
    /// Of the usage, what ran in the kernel.
    pub system: Option<u64>,
    /// Periods of the quota in which it wanted to run.
    pub periods: Option<u64>,
    /// Those in which it was throttled.
    pub throttled_periods: Option<u64>,
    pub throttled: Option<u64>,
    /// What it may use in each period, in microseconds; only with [`Detail::Everything`].
    pub quota: Option<Limit>,
    /// Length of a period in microseconds; only with [`Detail::Everything`].
    pub period: Option<u64>,
    /// Its share of the processors on version 1's scale, usually 1024; only with
    /// [`Detail::Everything`].
    pub shares: Option<u64>,
    pub pressure: Option<Pressure>,
}

/// Memory, in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryReading {
    pub at: Nanos,
    /// All of it, page cache included.
    pub usage: u64,
    /// Without the page cache not used lately: what cannot be reclaimed cheaply.
    pub working_set: u64,
    /// What is left of the limit; none without a limit below the machine's memory.
    pub available: Option<u64>,
    pub rss: Option<u64>,
    pub cache: Option<u64>,
    pub active_file: Option<u64>,
    /// Page cache not used lately.
    pub inactive_file: Option<u64>,
    pub mapped_file: Option<u64>,
    /// The kernel's own, on its behalf.
    pub kernel: Option<u64>,
    /// The most it ever was.
    pub peak: Option<u64>,
    /// How often the limit was met.
    pub limit_hits: Option<u64>,
    /// Processes killed for lack of memory.
    pub oom_kills: Option<u64>,
    /// Page faults, those of groups below it included.
    pub faults: Option<u64>,
    /// Page faults that needed the disk, likewise.
    pub major_faults: Option<u64>,
    /// Page faults of the group itself, where they are counted apart: version 1.
    pub own_faults: Option<u64>,
    /// Those that needed the disk.
    pub own_major_faults: Option<u64>,
    /// The most it may be.
    pub limit: Option<Limit>,
    /// The most it and swap may be together.
    pub swap_limit: Option<Limit>,
    /// What it keeps when memory is short: the soft limit of version 1, `memory.min` of version
    /// 2. Only with [`Detail::Everything`].
    pub reserved: Option<Limit>,
    pub pressure: Option<Pressure>,
}

/// The most of something that a group may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// As much as there is.
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
    /// When it was read.
    pub at: Nanos,
    /// In use.
    pub usage: u64,
    /// What is left of the limit; none without one.
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

/// What was read from and written to a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceReading {
    pub major: u32,
    pub minor: u32,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub discarded_bytes: u64,
    pub reads: u64,
    pub writes: u64,
    pub discards: u64,
}

/// Tasks (threads) of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PidsReading {
    pub at: Nanos,
    /// How many there are.
    pub tasks: u64,
    /// How many there may be; only with [`Detail::Everything`].
    pub limit: Option<Limit>,
}

/// Huge pages of one size, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugepageReading {
    /// The size as the kernel names it, e.g. `2MB`.
    pub size: String,
    /// In use.
    pub usage: u64,
    /// The most that ever was in use; version 1 only.
    pub peak: Option<u64>,
    /// How often the limit was met.
    pub limit_hits: Option<u64>,
}

/// Pressure stall information: how long tasks waited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// While at least one task waited.
    pub some: Stall,
    /// While all tasks waited; absent for processors on older kernels, and then all zero.
    pub full: Stall,
}

/// One line of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    /// Since the beginning, in microseconds as the kernel counts them.
    pub total: u64,
    pub avg10: f64,
    pub avg60: f64,
    pub avg300: f64,
}

/// The interfaces of a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkReading {
    pub at: Nanos,
    /// The one that holds the pod's address.
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
    /// Bytes.
    pub bytes: u64,
    pub packets: u64,
    pub errors: u64,
    pub dropped: u64,
}

/// The processes of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessReading {
    /// How many there are.
    pub processes: u64,
    /// Their threads, where the cgroup does not count tasks.
    pub threads: u64,
    /// Their open file descriptors; none where there are too many to be counted.
    pub descriptors: Option<u64>,
    pub sockets: Option<u64>,
    /// Soft limits of the main process: name as `ulimit` and cAdvisor have it → value.
    pub ulimits: Vec<(&'static str, u64)>,
}

/// What a container wrote outside of mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerReading {
    /// When its measurement ended.
    pub at: Nanos,
    /// The directory the engine keeps layers in, as ImageFsInfo names it.
    pub mountpoint: PathBuf,
    /// Bytes on disk.
    pub bytes: u64,
    pub inodes: u64,
}

/// The disks of this machine, as far as figures of containers name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disks {
    /// Names of block devices by their numbers: `/dev/sda`.
    pub names: BTreeMap<(u32, u32), String>,
    /// The file system that writable layers are on; none while it cannot be read.
    pub layers: Option<DiskReading>,
}

/// A file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskReading {
    /// What is mounted: `/dev/sda1`.
    pub device: String,
    /// Bytes it has in all.
    pub bytes: u64,
    /// Inodes it has in all; 0 where it has no such limit.
    pub inodes: u64,
    pub free_inodes: u64,
}

/// Every figure that this machine has, each with some value: what is none here is none
/// in every reading.
#[derive(Clone, Debug, Default)]
pub struct MachineSample {
    pub group: GroupReading,
    pub processes: ProcessReading,
    /// Of writable layers; none where they cannot be measured.
    pub layer: Option<LayerReading>,
    pub network: NetworkReading,
    pub disks: Disks,
}

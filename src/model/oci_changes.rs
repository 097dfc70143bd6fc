//! Changes of a container in the words of the OCI runtime specification: what CDI devices and NRI plugins
//! ask for beyond the fields of the Engine API.
//!
//! A durable format, in a label and in the file for our OCI runtime: add fields with defaults only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The changes; the default changes nothing. Where a value is optional, none removes what is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OciChanges {
    /// The whole command line; empty leaves it.
    #[serde(skip_serializing_if = "is_default")]
    pub args: Vec<String>,
    /// Environment, in order.
    #[serde(skip_serializing_if = "is_default")]
    pub env: Vec<(String, Option<String>)>,
    /// Groups added to the process.
    #[serde(skip_serializing_if = "is_default")]
    pub groups: Vec<u32>,
    /// Annotations for the runtime and its hooks.
    #[serde(skip_serializing_if = "is_default")]
    pub annotations: BTreeMap<String, Option<String>>,
    /// Programs that the runtime runs, added to those there.
    #[serde(skip_serializing_if = "is_default")]
    pub hooks: Hooks,
    /// Mounts, each in place of all others at its path.
    #[serde(skip_serializing_if = "is_default")]
    pub mounts: Vec<MountChange>,
    /// Device nodes by path. One that is set may be read and written by the container.
    #[serde(skip_serializing_if = "is_default")]
    pub devices: Vec<DeviceChange>,
    /// Rules of the device cgroup, behind those there.
    #[serde(skip_serializing_if = "is_default")]
    pub device_rules: Vec<DeviceRule>,
    /// Limits of the process, each in place of another of its type.
    #[serde(skip_serializing_if = "is_default")]
    pub rlimits: Vec<Rlimit>,
    /// Kernel parameters.
    #[serde(skip_serializing_if = "is_default")]
    pub sysctls: BTreeMap<String, Option<String>>,
    /// Namespaces by type: the path to join, or empty for a new one.
    #[serde(skip_serializing_if = "is_default")]
    pub namespaces: BTreeMap<String, Option<String>>,
    /// Network devices of the host that move into the container, by their name there: the new name, or
    /// empty for the same.
    #[serde(skip_serializing_if = "is_default")]
    pub net_devices: BTreeMap<String, Option<String>>,
    /// Path of the control group; empty leaves it.
    #[serde(skip_serializing_if = "is_default")]
    pub cgroups_path: String,
    /// `oomScoreAdj`, -1000 to 1000.
    #[serde(skip_serializing_if = "is_default")]
    pub oom_score_adj: Option<i64>,
    /// Limits of memory.
    #[serde(skip_serializing_if = "is_default")]
    pub memory: MemoryChange,
    /// Limits of processors.
    #[serde(skip_serializing_if = "is_default")]
    pub cpu: CpuChange,
    /// Cache and memory bandwidth.
    #[serde(skip_serializing_if = "is_default")]
    pub rdt: RdtChange,
    /// Priority of the process for block devices.
    #[serde(skip_serializing_if = "is_default")]
    pub io_priority: Option<IoPriority>,
    /// How the process is scheduled.
    #[serde(skip_serializing_if = "is_default")]
    pub scheduler: Option<Scheduler>,
    /// The seccomp filter, in place of the one there.
    #[serde(skip_serializing_if = "is_default")]
    pub seccomp: Option<Seccomp>,
    /// Which memory nodes the process uses.
    #[serde(skip_serializing_if = "is_default")]
    pub memory_policy: Option<MemoryPolicy>,
}

impl OciChanges {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        is_default(self)
    }

    /// These changes and `later` ones, which win where both set a value.
    #[must_use]
    pub fn with(mut self, later: Self) -> Self {
        if !later.args.is_empty() {
            self.args = later.args;
        }
        self.env.extend(later.env);
        self.groups.extend(later.groups);
        self.annotations.extend(later.annotations);
        for (hooks, more) in self.hooks.lists_mut().into_iter().zip(later.hooks.lists()) {
            hooks.extend_from_slice(more);
        }
        self.mounts.extend(later.mounts);
        self.devices.extend(later.devices);
        self.device_rules.extend(later.device_rules);
        self.rlimits.extend(later.rlimits);
        self.sysctls.extend(later.sysctls);
        self.namespaces.extend(later.namespaces);
        self.net_devices.extend(later.net_devices);
        if !later.cgroups_path.is_empty() {
            self.cgroups_path = later.cgroups_path;
        }
        self.memory = later.memory.or(self.memory);
        self.cpu = later.cpu.or(self.cpu);
        self.rdt = if later.rdt.remove { later.rdt } else { later.rdt.or(self.rdt) };
        self.oom_score_adj = later.oom_score_adj.or(self.oom_score_adj);
        self.io_priority = later.io_priority.or(self.io_priority);
        self.scheduler = later.scheduler.or(self.scheduler);
        self.seccomp = later.seccomp.or(self.seccomp);
        self.memory_policy = later.memory_policy.or(self.memory_policy);
        self
    }
}

/// Programs by when they run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Hooks {
    /// After the namespaces are made (deprecated by the specification).
    #[serde(skip_serializing_if = "is_default")]
    pub prestart: Vec<Hook>,
    /// The same, in the runtime's namespaces.
    #[serde(skip_serializing_if = "is_default")]
    pub create_runtime: Vec<Hook>,
    /// The same, in the container's namespaces, before its root is changed.
    #[serde(skip_serializing_if = "is_default")]
    pub create_container: Vec<Hook>,
    /// In the container, before its process.
    #[serde(skip_serializing_if = "is_default")]
    pub start_container: Vec<Hook>,
    /// After the process was started.
    #[serde(skip_serializing_if = "is_default")]
    pub poststart: Vec<Hook>,
    /// After the container was deleted.
    #[serde(skip_serializing_if = "is_default")]
    pub poststop: Vec<Hook>,
}

impl Hooks {
    /// The names of the six lists, in the order of [`Self::lists`].
    pub const NAMES: [&str; 6] =
        ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];

    /// The six lists.
    pub fn lists(&self) -> [&[Hook]; 6] {
        [
            &self.prestart,
            &self.create_runtime,
            &self.create_container,
            &self.start_container,
            &self.poststart,
            &self.poststop,
        ]
    }

    /// The same, to change.
    pub const fn lists_mut(&mut self) -> [&mut Vec<Hook>; 6] {
        [
            &mut self.prestart,
            &mut self.create_runtime,
            &mut self.create_container,
            &mut self.start_container,
            &mut self.poststart,
            &mut self.poststop,
        ]
    }
}

/// A program that the runtime runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hook {
    /// Its absolute path.
    pub path: String,
    /// Arguments, the first of which is its name.
    #[serde(skip_serializing_if = "is_default")]
    pub args: Vec<String>,
    /// Environment, `NAME=value`.
    #[serde(skip_serializing_if = "is_default")]
    pub env: Vec<String>,
    /// Seconds it may take.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: Option<i64>,
}

/// What is mounted at a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountChange {
    /// Path in the container.
    pub destination: String,
    /// What is mounted; none removes what is mounted there.
    pub mount: Option<OciMount>,
}

/// A mount without its destination.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OciMount {
    /// Type of the file system, or `bind`.
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub kind: String,
    /// Source.
    #[serde(skip_serializing_if = "is_default")]
    pub source: String,
    /// Options.
    #[serde(skip_serializing_if = "is_default")]
    pub options: Vec<String>,
}

/// What device is at a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceChange {
    /// Path in the container.
    pub path: String,
    /// The device; none removes what is there.
    pub device: Option<OciDevice>,
    /// What the container may do with it, of `rwm`.
    pub access: String,
}

/// A device node without its path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OciDevice {
    /// `c`, `b`, `u` or `p`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Major number.
    pub major: i64,
    /// Minor number.
    pub minor: i64,
    /// Permission bits.
    #[serde(skip_serializing_if = "is_default")]
    pub file_mode: Option<u32>,
    /// Owner.
    #[serde(skip_serializing_if = "is_default")]
    pub uid: Option<u32>,
    /// Group.
    #[serde(skip_serializing_if = "is_default")]
    pub gid: Option<u32>,
}

/// One rule of the device cgroup. A number that is not set means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceRule {
    /// Whether it allows.
    pub allow: bool,
    /// `a`, `c` or `b`.
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub kind: String,
    /// Major number.
    #[serde(skip_serializing_if = "is_default")]
    pub major: Option<i64>,
    /// Minor number.
    #[serde(skip_serializing_if = "is_default")]
    pub minor: Option<i64>,
    /// Of `rwm`.
    #[serde(skip_serializing_if = "is_default")]
    pub access: String,
}

/// A limit of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rlimit {
    /// E.g. `RLIMIT_NOFILE`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Upper bound.
    pub hard: u64,
    /// In force.
    pub soft: u64,
}

/// Limits of memory, in bytes where it says nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MemoryChange {
    /// Of the kernel (cgroup v1).
    #[serde(skip_serializing_if = "is_default")]
    pub kernel: Option<i64>,
    /// Of TCP buffers (cgroup v1).
    #[serde(rename = "kernelTCP", skip_serializing_if = "is_default")]
    pub kernel_tcp: Option<i64>,
    /// How readily it is swapped, 0 to 100 (cgroup v1).
    #[serde(skip_serializing_if = "is_default")]
    pub swappiness: Option<u64>,
    /// Processes wait instead of being killed (cgroup v1).
    #[serde(rename = "disableOOMKiller", skip_serializing_if = "is_default")]
    pub disable_oom_killer: Option<bool>,
    /// Count descendants (cgroup v1).
    #[serde(skip_serializing_if = "is_default")]
    pub use_hierarchy: Option<bool>,
}

impl MemoryChange {
    fn or(self, other: Self) -> Self {
        Self {
            kernel: self.kernel.or(other.kernel),
            kernel_tcp: self.kernel_tcp.or(other.kernel_tcp),
            swappiness: self.swappiness.or(other.swappiness),
            disable_oom_killer: self.disable_oom_killer.or(other.disable_oom_killer),
            use_hierarchy: self.use_hierarchy.or(other.use_hierarchy),
        }
    }
}

/// Limits of processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CpuChange {
    /// Microseconds of realtime scheduling in a period (cgroup v1).
    #[serde(skip_serializing_if = "is_default")]
    pub realtime_runtime: Option<i64>,
    /// That period in microseconds (cgroup v1).
    #[serde(skip_serializing_if = "is_default")]
    pub realtime_period: Option<u64>,
}

impl CpuChange {
    fn or(self, other: Self) -> Self {
        Self {
            realtime_runtime: self.realtime_runtime.or(other.realtime_runtime),
            realtime_period: self.realtime_period.or(other.realtime_period),
        }
    }
}

/// `linux.intelRdt`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RdtChange {
    /// What is there is removed before.
    #[serde(skip_serializing_if = "is_default")]
    pub remove: bool,
    /// Class of service.
    #[serde(rename = "closID", skip_serializing_if = "is_default")]
    pub clos_id: Option<String>,
    /// Lines of `schemata`.
    #[serde(skip_serializing_if = "is_default")]
    pub schemata: Option<Vec<String>>,
    /// Monitoring group.
    #[serde(skip_serializing_if = "is_default")]
    pub enable_monitoring: Option<bool>,
    /// Line of the L3 cache.
    #[serde(skip_serializing_if = "is_default")]
    pub l3_cache_schema: Option<String>,
    /// Line of the memory bandwidth.
    #[serde(skip_serializing_if = "is_default")]
    pub mem_bw_schema: Option<String>,
    /// Monitoring of the cache.
    #[serde(rename = "enableCMT", skip_serializing_if = "is_default")]
    pub enable_cmt: Option<bool>,
    /// Monitoring of the bandwidth.
    #[serde(rename = "enableMBM", skip_serializing_if = "is_default")]
    pub enable_mbm: Option<bool>,
}

impl RdtChange {
    fn or(self, other: Self) -> Self {
        Self {
            remove: self.remove || other.remove,
            clos_id: self.clos_id.or(other.clos_id),
            schemata: self.schemata.or(other.schemata),
            enable_monitoring: self.enable_monitoring.or(other.enable_monitoring),
            l3_cache_schema: self.l3_cache_schema.or(other.l3_cache_schema),
            mem_bw_schema: self.mem_bw_schema.or(other.mem_bw_schema),
            enable_cmt: self.enable_cmt.or(other.enable_cmt),
            enable_mbm: self.enable_mbm.or(other.enable_mbm),
        }
    }
}

/// `process.ioPriority`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoPriority {
    /// `IOPRIO_CLASS_RT`, `IOPRIO_CLASS_BE` or `IOPRIO_CLASS_IDLE`.
    pub class: String,
    /// Within the class, 0 to 7.
    pub priority: i32,
}

/// `process.scheduler`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scheduler {
    /// E.g. `SCHED_FIFO`.
    pub policy: String,
    /// For `SCHED_OTHER` and `SCHED_BATCH`.
    #[serde(skip_serializing_if = "is_default")]
    pub nice: i32,
    /// For `SCHED_FIFO` and `SCHED_RR`.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: i32,
    /// E.g. `SCHED_FLAG_RESET_ON_FORK`.
    #[serde(skip_serializing_if = "is_default")]
    pub flags: Vec<String>,
    /// For `SCHED_DEADLINE`, nanoseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub runtime: u64,
    /// The same.
    #[serde(skip_serializing_if = "is_default")]
    pub deadline: u64,
    /// The same.
    #[serde(skip_serializing_if = "is_default")]
    pub period: u64,
}

/// `linux.seccomp`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Seccomp {
    /// E.g. `SCMP_ACT_ERRNO`.
    pub default_action: String,
    /// The error number of that action.
    #[serde(skip_serializing_if = "is_default")]
    pub default_errno_ret: Option<u32>,
    /// E.g. `SCMP_ARCH_X86_64`.
    #[serde(skip_serializing_if = "is_default")]
    pub architectures: Vec<String>,
    /// E.g. `SECCOMP_FILTER_FLAG_LOG`.
    #[serde(skip_serializing_if = "is_default")]
    pub flags: Vec<String>,
    /// Socket of who answers notifications.
    #[serde(skip_serializing_if = "is_default")]
    pub listener_path: String,
    /// What is sent along.
    #[serde(skip_serializing_if = "is_default")]
    pub listener_metadata: String,
    /// Rules.
    #[serde(skip_serializing_if = "is_default")]
    pub syscalls: Vec<SyscallRule>,
}

/// A rule for system calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SyscallRule {
    /// Their names.
    pub names: Vec<String>,
    /// E.g. `SCMP_ACT_ALLOW`.
    pub action: String,
    /// The error number of the action.
    #[serde(skip_serializing_if = "is_default")]
    pub errno_ret: Option<u32>,
    /// Conditions.
    #[serde(skip_serializing_if = "is_default")]
    pub args: Vec<SyscallArgument>,
}

/// A condition on an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SyscallArgument {
    /// Which argument.
    pub index: u32,
    /// Compared with.
    pub value: u64,
    /// The second value of some comparisons.
    #[serde(skip_serializing_if = "is_default")]
    pub value_two: u64,
    /// E.g. `SCMP_CMP_EQ`.
    pub op: String,
}

/// `linux.memoryPolicy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryPolicy {
    /// E.g. `MPOL_BIND`.
    pub mode: String,
    /// Nodes, in the kernel's list format.
    #[serde(skip_serializing_if = "is_default")]
    pub nodes: String,
    /// E.g. `MPOL_F_STATIC_NODES`.
    #[serde(skip_serializing_if = "is_default")]
    pub flags: Vec<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

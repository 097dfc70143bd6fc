//! The limits of a cgroup, read from its files.

use super::{Cgroup, Hierarchy, file_name, read, weight::CpuWeight, write};
use crate::host::error::HostError;

/// Current limits. A field is None if it was not read, for example without the limit's cgroup controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub cpu_period: Option<i64>,
    /// The CPU time that the cgroup may use in each period, in microseconds; [`UNLIMITED`] for no limit.
    pub cpu_quota: Option<i64>,
    pub cpu_weight: Option<CpuWeight>,
    /// The memory limit in bytes; [`UNLIMITED`] for no limit.
    pub memory: Option<i64>,
    /// The limit of memory and swap together in bytes; [`UNLIMITED`] for no limit.
    pub memory_and_swap: Option<i64>,
    /// The permitted CPUs in the kernel's list format. With cgroup v2, empty if no list was set.
    pub cpus: Option<String>,
    /// The permitted memory nodes in the kernel's list format. With cgroup v2, empty if no list was set.
    pub mems: Option<String>,
    pub oom_score_adj: Option<i64>,
}

impl Limits {
    /// Whether the CPU quota, CPU weight or memory limit was read, which proves that the cgroup existed.
    pub const fn is_known(&self) -> bool {
        self.cpu_quota.is_some() || self.cpu_weight.is_some() || self.memory.is_some()
    }
}

/// A limit with this value means that there is no limit.
pub const UNLIMITED: i64 = -1;

impl Cgroup {
    /// The limits of the cgroup, and the OOM score adjustment of process `pid`. Reads up to eight files.
    pub fn limits(&self, pid: u32) -> Limits {
        Limits {
            cpus: self.text("cpuset", "cpuset.cpus"),
            mems: self.text("cpuset", "cpuset.mems"),
            ..self.numbers(pid)
        }
    }

    /// Like [`Self::limits`], but without the sets of CPUs and memory nodes.
    pub fn numbers(&self, pid: u32) -> Limits {
        // Reads `oom_score_adj` first: if the cgroup still exists afterwards, the pid is unlikely to have been reused.
        let score = self.oom_score_adj(pid);
        let (cpu_quota, cpu_period) = self.cpu_quota();
        let memory = self.memory();
        Limits {
            cpu_period,
            cpu_quota,
            cpu_weight: self.cpu_weight(),
            memory,
            memory_and_swap: self.memory_and_swap(memory),
            cpus: None,
            mems: None,
            oom_score_adj: score,
        }
    }

    /// The OOM score adjustment of process `pid`. None if the process has ended.
    pub fn oom_score_adj(&self, pid: u32) -> Option<i64> {
        read(&self.proc.join(pid.to_string()), "oom_score_adj").ok()?.parse().ok()
    }

    /// Sets the OOM score adjustment of process `pid`.
    ///
    /// # Errors
    /// The process has ended, or the score is so low that setting it needs `CAP_SYS_RESOURCE`, and dockbridge does
    /// not have this capability.
    pub fn set_oom_score_adj(&self, pid: u32, score: i64) -> Result<(), HostError> {
        write(&self.proc.join(pid.to_string()), "oom_score_adj", &score.to_string())
    }

    fn cpu_quota(&self) -> (Option<i64>, Option<i64>) {
        match self.directory("cpu").map(|(hierarchy, _)| hierarchy) {
            None => (None, None),
            Some(Hierarchy::V1) => {
                (self.bytes("cpu", "cpu.cfs_quota_us"), self.bytes("cpu", "cpu.cfs_period_us"))
            }
            Some(Hierarchy::V2) => {
                let text = self.text("cpu", "cpu.max").unwrap_or_default();
                let mut parts = text.split(' ');
                (parts.next().and_then(number), parts.next().and_then(number))
            }
        }
    }

    fn cpu_weight(&self) -> Option<CpuWeight> {
        match self.directory("cpu")?.0 {
            Hierarchy::V1 => self.bytes("cpu", "cpu.shares").map(CpuWeight::Shares),
            Hierarchy::V2 => self.bytes("cpu", "cpu.weight").map(CpuWeight::Weight),
        }
    }

    fn memory(&self) -> Option<i64> {
        match self.directory("memory")?.0 {
            Hierarchy::V1 => self.bytes("memory", "memory.limit_in_bytes"),
            Hierarchy::V2 => self.bytes("memory", "memory.max"),
        }
    }

    fn memory_and_swap(&self, memory: Option<i64>) -> Option<i64> {
        match self.directory("memory")?.0 {
            Hierarchy::V1 => self.bytes("memory", "memory.memsw.limit_in_bytes"),
            Hierarchy::V2 => match (memory?, self.bytes("memory", "memory.swap.max")?) {
                (UNLIMITED, _) | (_, UNLIMITED) => Some(UNLIMITED),
                (memory, swap) => Some(memory.saturating_add(swap)),
            },
        }
    }

    fn bytes(&self, controller: &str, file: &str) -> Option<i64> {
        self.text(controller, file).as_deref().and_then(number)
    }

    /// The text of a controller's file, without white space at its end. None if the file cannot be read. Keeps
    /// the file open if the limit of open cgroup files allows it.
    pub fn text(&self, controller: &str, file: &str) -> Option<String> {
        let mut bytes = Vec::new();
        let path = self.directory(controller)?.1.join(file_name(file).ok()?);
        self.open_files.read(&path, &mut bytes).ok()?;
        String::from_utf8(bytes).ok().map(|text| text.trim_end().to_owned())
    }
}

/// Parses a limit of the kernel: [`UNLIMITED`] for `max`, and for numbers of at least [`V1_NO_LIMIT`].
pub(in crate::host) fn number(text: &str) -> Option<i64> {
    match text {
        "max" => Some(UNLIMITED),
        text => text.parse().ok().map(|value| if value >= V1_NO_LIMIT { UNLIMITED } else { value }),
    }
}

/// If cgroup v1 shows at least this number of bytes, there is no limit. No host has this much memory.
pub const V1_NO_LIMIT: i64 = i64::MAX - (1 << 20);

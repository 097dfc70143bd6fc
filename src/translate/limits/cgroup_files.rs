//! Limits for huge pages and `unified`: the Engine API has no fields for them, so dockbridge writes cgroup files.
//!
//! If systemd manages the cgroup, a `daemon-reload` overwrites some of these files, so dockbridge also sets the
//! properties of systemd that correspond to the files.

use serde_json::json;

use crate::{
    error::Failure,
    model::{
        engine::EngineInfo,
        resources::{HugepageLimit, Resources, SWAP_MAX},
        spec_edit::SpecEdit,
    },
};

/// A file of a cgroup, and the value to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupFile {
    pub limit: CgroupLimit,
    pub controller: String,
    pub file: String,
    pub value: String,
    /// What dockbridge does if the cgroup does not have the file.
    pub if_missing: IfMissing,
    /// The same limit as properties for `systemctl set-property`; empty if dockbridge knows none.
    pub properties: Vec<String>,
}

/// The limit that a cgroup file sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgroupLimit {
    Hugepages(String),
    /// The limit for reserved huge pages of this size, with the same value as the limit for used huge pages.
    HugepageReservations(String),
    Unified(String),
}

/// What dockbridge does if a file is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    /// Fail, because the container must not run without this limit.
    Fail,
    /// Log a warning. kubelet sends this limit, even if the kernel does not have it.
    Warn,
    /// Do nothing, because the container may run without this limit.
    Ignore,
}

impl CgroupFile {
    /// The field of the CRI request that has this limit, for errors.
    pub fn field(&self) -> String {
        match &self.limit {
            CgroupLimit::Hugepages(size) | CgroupLimit::HugepageReservations(size) => {
                format!("linux.resources.hugepage_limits[{size}]")
            }
            CgroupLimit::Unified(key) => format!("linux.resources.unified[{key:?}]"),
        }
    }

    /// Replaces the limit in a status with `now`, the current value of the file. `None` removes the limit.
    pub fn update_status(&self, shown: &mut Resources, now: Option<String>) {
        match &self.limit {
            CgroupLimit::Hugepages(size) => {
                shown.hugepage_limits.retain(|pages| pages.page_size != *size);
                let limit = now.and_then(|bytes| bytes.parse().ok());
                let page_size = size.clone();
                shown.hugepage_limits.extend(limit.map(|limit| HugepageLimit { page_size, limit }));
            }
            CgroupLimit::Unified(key) => {
                shown.unified.remove(key);
                shown.unified.extend(now.map(|now| (key.clone(), now)));
            }
            CgroupLimit::HugepageReservations(_) => {}
        }
    }

    /// The file of cgroup v2 for a key of `unified`.
    pub fn unified(key: &str, value: &str) -> Self {
        let optional = OPTIONAL_KEYS.contains(&key);
        Self {
            limit: CgroupLimit::Unified(key.to_owned()),
            controller: key.split('.').next().unwrap_or_default().to_owned(),
            file: key.to_owned(),
            value: value.to_owned(),
            if_missing: if optional { IfMissing::Warn } else { IfMissing::Fail },
            properties: properties(key, value),
        }
    }
}

/// The cgroup files for limits that the engine does not set.
///
/// # Errors
/// Fails if a key of `unified` needs cgroup v2 and the host has v1. A swap limit together with a memory limit
/// works on cgroup v1 and v2, because the Engine API has a field for it.
pub fn cgroup_files(limits: &Resources, engine: &EngineInfo) -> Result<Vec<CgroupFile>, Failure> {
    let is_v2 = engine.cgroup_version == 2;
    let suffix = if is_v2 { "max" } else { "limit_in_bytes" };
    let mut files = Vec::new();
    for HugepageLimit { page_size, limit } in &limits.hugepage_limits {
        let file = |kind: fn(String) -> CgroupLimit, size: &str, if_missing| CgroupFile {
            limit: kind(page_size.clone()),
            controller: "hugetlb".to_owned(),
            file: format!("hugetlb.{size}.{suffix}"),
            value: limit.to_string(),
            if_missing,
            properties: Vec::new(),
        };
        let if_missing = if *limit == 0 { IfMissing::Ignore } else { IfMissing::Fail };
        files.push(file(CgroupLimit::Hugepages, page_size, if_missing));
        // Kernels before 5.7 do not have a limit for reserved huge pages.
        let reserved = format!("{page_size}.rsvd");
        files.push(file(CgroupLimit::HugepageReservations, &reserved, IfMissing::Ignore));
    }
    for (key, value) in &limits.unified {
        let engine_sets_swap = key == SWAP_MAX && limits.memory_limit > 0;
        // cgroup v1 does not have the file `memory.swap.max`, and does not limit swap by default.
        let is_no_limit = key == SWAP_MAX && value == MAX && !is_v2;
        if engine_sets_swap || is_no_limit {
            continue;
        }
        if !is_v2 {
            return Err(Failure::unmet(format!(
                "linux.resources.unified[{key:?}]: the engine's host has cgroup v1, and this field needs cgroup v2"
            )));
        }
        files.push(CgroupFile::unified(key, value));
    }
    Ok(files)
}

/// Edits of `config.json` for limits without which the container must not run. dockbridge sets the other
/// limits after the start, because the kernel might not have them.
pub fn edits(limits: &Resources, engine: &EngineInfo) -> Vec<SpecEdit> {
    // The plan has already refused limits that need cgroup v2 if the host has v1.
    let files = cgroup_files(limits, engine).unwrap_or_default();
    let needed = files.into_iter().filter(|file| file.if_missing == IfMissing::Fail);
    let edit = |file: CgroupFile| match file.limit {
        CgroupLimit::Unified(key) => {
            Some(SpecEdit::set(&["linux", "resources", "unified", &key], file.value))
        }
        CgroupLimit::Hugepages(size) => {
            let bytes = file.value.parse::<u64>().ok()?;
            let at = ["linux", "resources", "hugepageLimits", &size];
            Some(SpecEdit::set(&at, json!({"limit": bytes})))
        }
        CgroupLimit::HugepageReservations(_) => None,
    };
    needed.filter_map(edit).collect()
}

fn properties(file: &str, value: &str) -> Vec<String> {
    let limit = if value == MAX { "infinity" } else { value };
    let named = |name: &str| vec![format!("{name}={limit}")];
    match file {
        "memory.min" => named("MemoryMin"),
        "memory.low" => named("MemoryLow"),
        "memory.high" => named("MemoryHigh"),
        "memory.max" => named("MemoryMax"),
        SWAP_MAX => named("MemorySwapMax"),
        "memory.zswap.max" => named("MemoryZSwapMax"),
        "cpu.weight" => named("CPUWeight"),
        "cpuset.cpus" => named("AllowedCPUs"),
        "cpuset.mems" => named("AllowedMemoryNodes"),
        "pids.max" => named("TasksMax"),
        "cpu.max" => cpu_quota(value),
        _ => Vec::new(),
    }
}

/// Converts `cpu.max` (quota and period in microseconds) to systemd's properties: a percentage of a CPU,
/// and the period. Without a quota, the only property is an empty `CPUQuota`.
fn cpu_quota(value: &str) -> Vec<String> {
    let (quota, period) = value.split_once(' ').unwrap_or((value, DEFAULT_PERIOD));
    let period: u64 = period.trim().parse().unwrap_or(0);
    let hundredths =
        quota.parse::<u64>().ok().and_then(|quota| quota.checked_mul(10_000)?.checked_div(period));
    match hundredths {
        Some(part) => vec![
            format!("CPUQuota={}.{:02}%", part / 100, part % 100),
            format!("CPUQuotaPeriodSec={period}us"),
        ],
        None => vec!["CPUQuota=".to_owned()],
    }
}

/// The text `max` in a file of cgroup v2 means that there is no limit.
const MAX: &str = "max";
/// The kernel's default for the period of a CPU quota, in microseconds.
const DEFAULT_PERIOD: &str = "100000";
/// Keys of `unified` that kubelet sends even if the kernel does not have such files.
const OPTIONAL_KEYS: &[&str] = &["memory.oom.group", SWAP_MAX];

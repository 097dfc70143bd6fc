//! Limits that the Engine API has no words for: files of the container's control group, to be set
//! by whoever starts it.
//!
//! systemd writes again what it keeps itself whenever it is reloaded, so where it keeps the group,
//! its own names for such files are told too.

use super::error::PlanError;
use crate::model::{
    engine::EngineInfo,
    resources::{Resources, SWAP_MAX},
};

/// A file of a control group to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What it is for.
    pub extra: Extra,
    /// Whose hierarchy it is in.
    pub controller: String,
    /// Its name.
    pub file: String,
    /// What it shall hold.
    pub value: String,
    /// What its absence means.
    pub absence: Absence,
    /// The same in the words of `systemctl set-property`, where systemd has any.
    pub properties: Vec<String>,
}

/// Which limit a file is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Huge pages of a size.
    Hugepages(String),
    /// Reservations of them, which the limit means as well.
    Reservations(String),
    /// A key of the unified hierarchy.
    Unified(String),
}

/// What it means that a file is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The limit cannot be had: the container must not run.
    Fails,
    /// Kubelet asks for it always, whether the kernel has it or not: worth a warning.
    IsTold,
    /// There is nothing to limit.
    IsFine,
}

impl Setting {
    /// The field of the request, for whoever reads an error.
    pub fn field(&self) -> String {
        match &self.extra {
            Extra::Hugepages(size) | Extra::Reservations(size) => {
                format!("linux.resources.hugepage_limits[{size}]")
            }
            Extra::Unified(key) => format!("linux.resources.unified[{key:?}]"),
        }
    }

    /// The same file holding something else.
    pub fn holding(&self, value: &str) -> Self {
        let properties = match self.extra {
            Extra::Unified(_) => properties(&self.file, value),
            Extra::Hugepages(_) | Extra::Reservations(_) => Vec::new(),
        };
        Self { value: value.to_owned(), properties, ..self.clone() }
    }
}

impl Setting {
    /// A key of the unified hierarchy; on version 1 a file of the same name, where there is one.
    pub fn unified(key: &str, value: &str) -> Self {
        let usual = USUAL.contains(&key);
        Self {
            extra: Extra::Unified(key.to_owned()),
            controller: key.split('.').next().unwrap_or_default().to_owned(),
            file: key.to_owned(),
            value: value.to_owned(),
            absence: if usual { Absence::IsTold } else { Absence::Fails },
            properties: properties(key, value),
        }
    }
}

/// What the engine does not set of these limits.
///
/// # Errors
/// [`PlanError::NotUnified`] for keys that an engine on version 1 cannot have. Swap beside a memory
/// limit is no such key: the engine can say that.
pub fn extras(limits: &Resources, engine: &EngineInfo) -> Result<Vec<Setting>, PlanError> {
    let is_unified = engine.cgroup_version == 2;
    let mut settings = Vec::new();
    for pages in &limits.hugepage_limits {
        let size = pages.page_size.clone();
        let value = pages.limit.to_string();
        let absence = if pages.limit == 0 { Absence::IsFine } else { Absence::Fails };
        let limit = Extra::Hugepages(size.clone());
        settings.push(hugepages(limit, (is_unified, &size), (&value, absence)));
        // Kernels before 5.7 have no such limit.
        let reserved = format!("{size}.rsvd");
        let limit = Extra::Reservations(size);
        settings.push(hugepages(limit, (is_unified, &reserved), (&value, Absence::IsFine)));
    }
    for (key, value) in &limits.unified {
        let is_said = key == SWAP_MAX && limits.memory_limit > 0;
        // Where there is no limit to set, none is what everybody has.
        let is_nothing = key == SWAP_MAX && value == MAX && !is_unified;
        if is_said || is_nothing {
            continue;
        }
        if !is_unified {
            return Err(PlanError::NotUnified { key: key.clone() });
        }
        settings.push(Setting::unified(key, value));
    }
    Ok(settings)
}

fn hugepages(
    extra: Extra,
    (is_unified, size): (bool, &str),
    (value, absence): (&str, Absence),
) -> Setting {
    let word = if is_unified { "max" } else { "limit_in_bytes" };
    Setting {
        extra,
        controller: "hugetlb".to_owned(),
        file: format!("hugetlb.{size}.{word}"),
        value: value.to_owned(),
        absence,
        properties: Vec::new(),
    }
}

/// What systemd calls a file of a scope it keeps; nothing for those it leaves alone.
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

/// `cpu.max` is a quota and a period in microseconds; systemd wants a part of a CPU.
fn cpu_quota(value: &str) -> Vec<String> {
    let (quota, period) = value.split_once(' ').unwrap_or((value, USUAL_PERIOD));
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

/// No limit, in files of the unified hierarchy.
const MAX: &str = "max";
/// The kernel's own period, in microseconds.
const USUAL_PERIOD: &str = "100000";
/// Keys kubelet asks for whether the kernel has them or not.
const USUAL: &[&str] = &["memory.oom.group", SWAP_MAX];

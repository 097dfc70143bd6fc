//! Limits in NRI: reads limits of plugins, renders limits for plugins, and merges limits of several plugins.
//! In CRI the limit 0 means "not set". In NRI a limit that is not set is absent.

use std::collections::BTreeMap;

use crate::{
    error::Failure,
    model::resources::{HugepageLimit, Resources},
    translate::parse::error::{At, ParseError},
    wire::{
        cri,
        nri::{self, Field},
    },
};

/// Records which NRI plugin sets which field. Two plugins must not set the same field, unless the later plugin first
/// removes the earlier value.
pub trait Claim {
    /// Records that the plugin sets a field, or its entry `key`. Fails if another plugin owns the field or entry.
    fn claim(&mut self, field: Field, key: &str) -> Result<(), Failure>;

    /// Replaces `over` with `asked`, the plugin's value of a field, if the plugin sets the field.
    fn merge<T: Clone + Default + PartialEq>(
        &mut self,
        over: &mut T,
        asked: &T,
        field: Field,
    ) -> Result<(), Failure> {
        if *asked != T::default() {
            self.claim(field, "")?;
            over.clone_from(asked);
        }
        Ok(())
    }
}

/// Reads a plugin's limits for an update of a container. In the result, 0 means that a limit does not change.
pub fn read(given: &nri::LinuxResources) -> Result<Resources, ParseError> {
    let (memory, cpu) = (given.memory.unwrap_or_default(), given.cpu.clone().unwrap_or_default());
    let signed = |value: Option<nri::OptionalInt64>| value.map_or(0, |value| value.value);
    let unsigned = |value: Option<nri::OptionalUInt64>| {
        i64::try_from(value.map_or(0, |value| value.value))
            .map_err(|_| ParseError::invalid("is out of range"))
    };
    let pages =
        |it: nri::HugepageLimit| cri::HugepageLimit { page_size: it.page_size, limit: it.limit };
    let as_kubelet = cri::LinuxContainerResources {
        cpu_period: unsigned(cpu.period).at("cpu.period")?,
        cpu_quota: signed(cpu.quota),
        cpu_shares: unsigned(cpu.shares).at("cpu.shares")?,
        memory_limit_in_bytes: signed(memory.limit),
        memory_swap_limit_in_bytes: signed(memory.swap),
        cpuset_cpus: cpu.cpus,
        cpuset_mems: cpu.mems,
        hugepage_limits: given.hugepage_limits.iter().cloned().map(pages).collect(),
        unified: given.unified.clone(),
        ..cri::LinuxContainerResources::default()
    };
    let asked = cri::UpdateContainerResourcesRequest {
        linux: Some(as_kubelet),
        ..cri::UpdateContainerResourcesRequest::default()
    };
    let pids = given.pids.as_ref().map(|pids| pids.limit);
    Ok(Resources {
        pids_limit: pids.map_or(0, |most| if most < 1 { -1 } else { most }),
        memory_reservation: signed(memory.reservation).max(0),
        ..super::cri::update(&asked)?
    })
}

/// Limits in the form in which plugins receive them.
pub fn rendered(given: &Resources) -> nri::LinuxResources {
    let signed = |value: i64| (value != 0).then_some(nri::OptionalInt64 { value });
    let unsigned = |value: i64| {
        let value = u64::try_from(value).ok().filter(|value| *value > 0);
        value.map(|value| nri::OptionalUInt64 { value })
    };
    let pages = |it: HugepageLimit| nri::HugepageLimit { page_size: it.page_size, limit: it.limit };
    nri::LinuxResources {
        memory: Some(nri::LinuxMemory {
            limit: signed(given.memory_limit),
            reservation: signed(given.memory_reservation),
            swap: signed(given.memory_swap_limit),
            ..nri::LinuxMemory::default()
        }),
        cpu: Some(nri::LinuxCpu {
            shares: unsigned(given.cpu_shares),
            quota: signed(given.cpu_quota),
            period: unsigned(given.cpu_period),
            cpus: given.cpuset_cpus.clone(),
            mems: given.cpuset_mems.clone(),
            ..nri::LinuxCpu::default()
        }),
        hugepage_limits: given.hugepage_limits.iter().cloned().map(pages).collect(),
        unified: given.unified.clone(),
        pids: (given.pids_limit != 0).then_some(nri::LinuxPids { limit: given.pids_limit }),
        ..nri::LinuxResources::default()
    }
}

/// Merges the limits of a plugin into those of earlier plugins. Fails if two plugins set the same limit.
pub fn merge_limits(
    over: &mut nri::LinuxResources,
    asked: &nri::LinuxResources,
    claims: &mut impl Claim,
) -> Result<(), Failure> {
    if let Some(memory) = &asked.memory {
        merge_memory(over.memory.get_or_insert_default(), memory, claims)?;
    }
    if let Some(cpu) = &asked.cpu {
        merge_cpu(over.cpu.get_or_insert_default(), cpu, claims)?;
    }
    for limit in &asked.hugepage_limits {
        claims.claim(Field::HugepageLimits, &limit.page_size)?;
    }
    let limits = over.hugepage_limits.drain(..).chain(asked.hugepage_limits.iter().cloned());
    let by_size: BTreeMap<String, nri::HugepageLimit> =
        limits.map(|limit| (limit.page_size.clone(), limit)).collect();
    over.hugepage_limits = by_size.into_values().collect();
    for (key, value) in &asked.unified {
        claims.claim(Field::CgroupsUnified, key)?;
        over.unified.insert(key.clone(), value.clone());
    }
    over.devices.extend_from_slice(&asked.devices);
    claims.merge(&mut over.blockio_class, &asked.blockio_class, Field::BlockioClass)?;
    claims.merge(&mut over.rdt_class, &asked.rdt_class, Field::RdtClass)?;
    claims.merge(&mut over.pids, &asked.pids, Field::PidsLimit)
}

fn merge_memory(
    over: &mut nri::LinuxMemory,
    asked: &nri::LinuxMemory,
    claims: &mut impl Claim,
) -> Result<(), Failure> {
    claims.merge(&mut over.limit, &asked.limit, Field::MemLimit)?;
    claims.merge(&mut over.reservation, &asked.reservation, Field::MemReservation)?;
    claims.merge(&mut over.swap, &asked.swap, Field::MemSwapLimit)?;
    claims.merge(&mut over.kernel, &asked.kernel, Field::MemKernelLimit)?;
    claims.merge(&mut over.kernel_tcp, &asked.kernel_tcp, Field::MemTcpLimit)?;
    claims.merge(&mut over.swappiness, &asked.swappiness, Field::MemSwappiness)?;
    let kill = &asked.disable_oom_killer;
    claims.merge(&mut over.disable_oom_killer, kill, Field::MemDisableOomKiller)?;
    claims.merge(&mut over.use_hierarchy, &asked.use_hierarchy, Field::MemUseHierarchy)
}

fn merge_cpu(
    over: &mut nri::LinuxCpu,
    asked: &nri::LinuxCpu,
    claims: &mut impl Claim,
) -> Result<(), Failure> {
    claims.merge(&mut over.shares, &asked.shares, Field::CpuShares)?;
    claims.merge(&mut over.quota, &asked.quota, Field::CpuQuota)?;
    claims.merge(&mut over.period, &asked.period, Field::CpuPeriod)?;
    let runtime = &asked.realtime_runtime;
    claims.merge(&mut over.realtime_runtime, runtime, Field::CpuRealtimeRuntime)?;
    claims.merge(&mut over.realtime_period, &asked.realtime_period, Field::CpuRealtimePeriod)?;
    claims.merge(&mut over.cpus, &asked.cpus, Field::CpuSetCpUs)?;
    claims.merge(&mut over.mems, &asked.mems, Field::CpuSetMems)
}

/// The name of a limit as NRI spells it.
pub const fn name(limit: Field) -> &'static str {
    match limit {
        Field::MemLimit => "linux.resources.memory.limit",
        Field::MemReservation => "linux.resources.memory.reservation",
        Field::MemSwapLimit => "linux.resources.memory.swap",
        Field::MemKernelLimit => "linux.resources.memory.kernel",
        Field::MemTcpLimit => "linux.resources.memory.kernel_tcp",
        Field::MemSwappiness => "linux.resources.memory.swappiness",
        Field::MemDisableOomKiller => "linux.resources.memory.disable_oom_killer",
        Field::MemUseHierarchy => "linux.resources.memory.use_hierarchy",
        Field::CpuShares => "linux.resources.cpu.shares",
        Field::CpuQuota => "linux.resources.cpu.quota",
        Field::CpuPeriod => "linux.resources.cpu.period",
        Field::CpuRealtimeRuntime => "linux.resources.cpu.realtime_runtime",
        Field::CpuRealtimePeriod => "linux.resources.cpu.realtime_period",
        Field::CpuSetCpUs => "linux.resources.cpu.cpus",
        Field::CpuSetMems => "linux.resources.cpu.mems",
        Field::PidsLimit => "linux.resources.pids",
        Field::HugepageLimits => "linux.resources.hugepage_limits",
        Field::BlockioClass => "linux.resources.blockio_class",
        Field::RdtClass => "linux.resources.rdt_class",
        Field::CgroupsUnified => "linux.resources.unified",
        _ => "?",
    }
}

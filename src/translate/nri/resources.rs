//! Limits of several plugins, laid over each other.

use std::collections::BTreeMap;

use super::owners::{Claims, Conflict};
use crate::wire::nri::{self, Field};

pub(super) fn lay(
    over: &mut nri::LinuxResources,
    asked: &nri::LinuxResources,
    claims: &mut Claims<'_>,
) -> Result<(), Conflict> {
    if let Some(memory) = &asked.memory {
        lay_memory(over.memory.get_or_insert_default(), memory, claims)?;
    }
    if let Some(cpu) = &asked.cpu {
        lay_cpu(over.cpu.get_or_insert_default(), cpu, claims)?;
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
    put(&mut over.blockio_class, asked.blockio_class.as_ref(), Field::BlockioClass, claims)?;
    put(&mut over.rdt_class, asked.rdt_class.as_ref(), Field::RdtClass, claims)?;
    put(&mut over.pids, asked.pids.as_ref(), Field::PidsLimit, claims)
}

fn lay_memory(
    over: &mut nri::LinuxMemory,
    asked: &nri::LinuxMemory,
    claims: &mut Claims<'_>,
) -> Result<(), Conflict> {
    put(&mut over.limit, asked.limit.as_ref(), Field::MemLimit, claims)?;
    put(&mut over.reservation, asked.reservation.as_ref(), Field::MemReservation, claims)?;
    put(&mut over.swap, asked.swap.as_ref(), Field::MemSwapLimit, claims)?;
    put(&mut over.kernel, asked.kernel.as_ref(), Field::MemKernelLimit, claims)?;
    put(&mut over.kernel_tcp, asked.kernel_tcp.as_ref(), Field::MemTcpLimit, claims)?;
    put(&mut over.swappiness, asked.swappiness.as_ref(), Field::MemSwappiness, claims)?;
    let (kill, tree) = (asked.disable_oom_killer.as_ref(), asked.use_hierarchy.as_ref());
    put(&mut over.disable_oom_killer, kill, Field::MemDisableOomKiller, claims)?;
    put(&mut over.use_hierarchy, tree, Field::MemUseHierarchy, claims)
}

fn lay_cpu(
    over: &mut nri::LinuxCpu,
    asked: &nri::LinuxCpu,
    claims: &mut Claims<'_>,
) -> Result<(), Conflict> {
    put(&mut over.shares, asked.shares.as_ref(), Field::CpuShares, claims)?;
    put(&mut over.quota, asked.quota.as_ref(), Field::CpuQuota, claims)?;
    put(&mut over.period, asked.period.as_ref(), Field::CpuPeriod, claims)?;
    let (runtime, period) = (asked.realtime_runtime.as_ref(), asked.realtime_period.as_ref());
    put(&mut over.realtime_runtime, runtime, Field::CpuRealtimeRuntime, claims)?;
    put(&mut over.realtime_period, period, Field::CpuRealtimePeriod, claims)?;
    put_text(&mut over.cpus, &asked.cpus, Field::CpuSetCpUs, claims)?;
    put_text(&mut over.mems, &asked.mems, Field::CpuSetMems, claims)
}

pub(super) fn put<T: Clone>(
    over: &mut Option<T>,
    asked: Option<&T>,
    field: Field,
    claims: &mut Claims<'_>,
) -> Result<(), Conflict> {
    if let Some(asked) = asked {
        claims.claim(field, "")?;
        *over = Some(asked.clone());
    }
    Ok(())
}

/// The same for texts, of which the empty one is not set.
pub(super) fn put_text(
    over: &mut String,
    asked: &str,
    field: Field,
    claims: &mut Claims<'_>,
) -> Result<(), Conflict> {
    if !asked.is_empty() {
        claims.claim(field, "")?;
        asked.clone_into(over);
    }
    Ok(())
}

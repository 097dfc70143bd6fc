//! Limits that the Engine API has fields for.
//!
//! Huge pages and verbatim cgroup keys have no field in the Engine API: see [`super::cgroup_files`].

use super::error::PlanError;
use crate::{
    model::resources::{Resources, SWAP_MAX, UNLIMITED},
    wire::docker::HostConfig,
};

pub(super) fn limit(
    host: &mut HostConfig,
    limits: &Resources,
    oom_floor: i64,
) -> Result<(), PlanError> {
    check_swap(limits, limits)?;
    host.cpu_period = stated(limits.cpu_period);
    host.cpu_quota = stated(limits.cpu_quota);
    host.cpu_shares = stated(limits.cpu_shares);
    host.memory = stated(limits.memory_limit);
    host.memory_swap = memory_swap(limits);
    host.cpuset_cpus = Some(limits.cpuset_cpus.clone()).filter(|cpus| !cpus.is_empty());
    host.cpuset_mems = Some(limits.cpuset_mems.clone()).filter(|mems| !mems.is_empty());
    host.oom_score_adj = Some(oom_score_adj(limits.oom_score_adj, oom_floor));
    Ok(())
}

/// The adjustment, raised to what this host lets the engine set.
pub fn oom_score_adj(requested: i64, floor: i64) -> i64 {
    requested.max(floor).clamp(-1000, 1000)
}

/// Zero means "not set" in CRI.
pub(super) fn stated(value: i64) -> Option<i64> {
    (value != 0).then_some(value)
}

/// Refuses swap that contradicts the memory limit beside it. `merged` are the limits that will be in
/// force, of which `asked` are new.
pub(super) fn check_swap(asked: &Resources, merged: &Resources) -> Result<(), PlanError> {
    let (memory, together) = (merged.memory_limit, merged.memory_swap_limit);
    if !matches!(together, 0 | UNLIMITED) {
        if memory <= 0 {
            // How much of it is swap is unknown.
            return Err(PlanError::SwapWithoutMemory { together });
        }
        if together < memory {
            return Err(PlanError::SwapBelowMemory { together, memory });
        }
    }
    let Some(alone) = asked.unified.get(SWAP_MAX) else { return Ok(()) };
    let agree = match asked.memory_swap_limit {
        0 => true,
        UNLIMITED => alone == "max",
        together => alone.parse() == Ok(together.saturating_sub(memory)),
    };
    if agree { Ok(()) } else { Err(PlanError::SwapDisagrees { alone: alone.clone() }) }
}

/// Memory and swap together, of limits that passed [`check_swap`]. Unset, the engine would allow as
/// much swap as memory; Kubernetes means none. Kubelet states swap through this field on cgroup v1
/// and through `memory.swap.max` (swap alone) on v2.
pub(super) fn memory_swap(limits: &Resources) -> Option<i64> {
    let (memory, together) = (limits.memory_limit, limits.memory_swap_limit);
    if memory <= 0 {
        return (memory == UNLIMITED || together == UNLIMITED).then_some(UNLIMITED);
    }
    Some(match (together, limits.unified.get(SWAP_MAX).map(String::as_str)) {
        (0, Some("max")) => UNLIMITED,
        (0, Some(swap)) => {
            let swap = swap.trim().parse::<i64>().unwrap_or(0).max(0);
            memory.saturating_add(swap)
        }
        (0, None) => memory,
        (together, _) => together,
    })
}

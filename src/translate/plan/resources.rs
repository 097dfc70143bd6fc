//! Limits that the Engine API has fields for.
//!
//! Huge pages and verbatim cgroup keys have no field in the Engine API: see [`super::cgroup_files`].

use super::error::PlanError;
use crate::{
    model::resources::{Resources, SWAP_MAX, UNLIMITED},
    wire::docker::HostConfig,
};

/// Sets the limits of a container.
pub(super) fn limit(
    host: &mut HostConfig,
    limits: &Resources,
    oom_floor: i64,
) -> Result<(), PlanError> {
    host.cpu_period = stated(limits.cpu_period);
    host.cpu_quota = stated(limits.cpu_quota);
    host.cpu_shares = stated(limits.cpu_shares);
    host.memory = stated(limits.memory_limit);
    host.memory_swap = memory_swap(limits)?;
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

/// Memory and swap together. Unset, the engine would allow as much swap as memory; Kubernetes
/// means none. Kubelet states swap through this field on cgroup v1 and through
/// `memory.swap.max` (swap alone) on v2.
pub(super) fn memory_swap(limits: &Resources) -> Result<Option<i64>, PlanError> {
    let memory = limits.memory_limit;
    if memory <= 0 {
        return match (memory, limits.memory_swap_limit) {
            (UNLIMITED, _) | (_, UNLIMITED) => Ok(Some(UNLIMITED)),
            (_, 0) => Ok(None),
            // How much of it is swap is unknown.
            (_, together) => Err(PlanError::SwapWithoutMemory { together }),
        };
    }
    let swap_alone = limits.unified.get(SWAP_MAX).map(String::as_str);
    Ok(match (limits.memory_swap_limit, swap_alone) {
        (UNLIMITED, _) | (0, Some("max")) => Some(UNLIMITED),
        (0, Some(swap)) => {
            let swap = swap.trim().parse::<i64>().unwrap_or(0).max(0);
            Some(memory.saturating_add(swap))
        }
        // The engine refuses less than the memory limit.
        (together, _) => Some(together.max(memory)),
    })
}

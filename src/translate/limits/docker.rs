//! Limits that the Engine API has fields for: stated at a create and at an update, and read from an inspect.
//! What an update lifted is a negative number there, as an unlimited quota is.
//!
//! Huge pages and verbatim cgroup keys have no field in the Engine API: see [`super::cgroup_files`].

use super::cgroup_files::{CgroupFile, cgroup_files};
use crate::{
    model::{
        engine::EngineInfo,
        resources::{ALL_MEMORY, Resources, SWAP_MAX, UNLIMITED, stated},
    },
    translate::plan::error::PlanError,
    wire::docker::{ContainerUpdateBody, HostConfig, InspectHostConfig},
};

/// The limits the engine starts the container with, or has set since.
pub fn observe(host: &InspectHostConfig) -> Resources {
    Resources {
        cpu_period: host.cpu_period,
        cpu_quota: host.cpu_quota,
        cpu_shares: host.cpu_shares,
        memory_limit: unlimited(host.memory),
        memory_swap_limit: unlimited(host.memory_swap),
        oom_score_adj: host.oom_score_adj,
        cpuset_cpus: host.cpuset_cpus.clone(),
        cpuset_mems: host.cpuset_mems.clone(),
        pids_limit: host.pids_limit.max(0),
        memory_reservation: host.memory_reservation,
        ..Resources::default()
    }
}

/// States the limits of a new container.
///
/// # Errors
/// They contradict each other.
pub fn create(host: &mut HostConfig, limits: &Resources, oom_floor: i64) -> Result<(), PlanError> {
    check_swap(limits, limits)?;
    host.cpu_period = stated(limits.cpu_period);
    host.cpu_quota = stated(limits.cpu_quota);
    host.cpu_shares = stated(limits.cpu_shares);
    host.memory = stated(limits.memory_limit);
    host.memory_swap = memory_swap(limits);
    host.cpuset_cpus = listed(&limits.cpuset_cpus);
    host.cpuset_mems = listed(&limits.cpuset_mems);
    host.oom_score_adj = Some(oom_score_adj(limits.oom_score_adj, oom_floor));
    Ok(())
}

/// What to ask of the engine, and which files to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// For the engine; none when it has nothing to change.
    pub body: Option<ContainerUpdateBody>,
    /// What the engine does not set.
    pub files: Vec<CgroupFile>,
}

/// Plans the step from limits to others, of which `requested` are new ([`Resources::updated`]). Memory
/// and swap are sent together: alone, the engine measures the one against the old other.
///
/// # Errors
/// When the limits cannot be expressed.
pub fn update(
    requested: &Resources,
    after: &Resources,
    engine: &EngineInfo,
) -> Result<Update, PlanError> {
    let memory = requested.memory_limit != 0
        || requested.memory_swap_limit != 0
        || (requested.unified.contains_key(SWAP_MAX) && after.memory_limit > 0);
    check_swap(requested, after)?;
    let swap = memory_swap(after);
    let body = ContainerUpdateBody {
        cpu_period: stated(requested.cpu_period),
        cpu_quota: stated(requested.cpu_quota),
        cpu_shares: stated(requested.cpu_shares),
        memory: stated(after.memory_limit).map(as_number).filter(|_| memory),
        memory_swap: swap.map(|swap| together(swap, engine)).filter(|_| memory),
        cpuset_cpus: listed(&requested.cpuset_cpus),
        cpuset_mems: listed(&requested.cpuset_mems),
        pids_limit: stated(requested.pids_limit),
        memory_reservation: stated(requested.memory_reservation),
        ..ContainerUpdateBody::default()
    };
    let body = Some(body).filter(|body| *body != ContainerUpdateBody::default());
    Ok(Update { body, files: cgroup_files(after, engine)? })
}

/// A limit of memory and swap together in a form the engine takes. On version 1 the runtime writes
/// no limit before it has lifted that of memory, which the kernel refuses; a number it writes in
/// the right order. On version 2 the engine subtracts memory from a number, and none is none.
const fn together(swap: i64, engine: &EngineInfo) -> i64 {
    if engine.cgroup_version == 2 { swap } else { as_number(swap) }
}

/// A limit of memory in a form the engine takes.
const fn as_number(memory: i64) -> i64 {
    if memory == UNLIMITED { ALL_MEMORY } else { memory }
}

fn listed(list: &str) -> Option<String> {
    (!list.is_empty()).then(|| list.to_owned())
}

/// The adjustment, raised to what this host lets the engine set.
pub fn oom_score_adj(requested: i64, floor: i64) -> i64 {
    requested.max(floor).clamp(-1000, 1000)
}

/// Refuses swap that contradicts the memory limit beside it. `merged` are the limits after the change, of
/// which `asked` are new.
fn check_swap(asked: &Resources, merged: &Resources) -> Result<(), PlanError> {
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
fn memory_swap(limits: &Resources) -> Option<i64> {
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

/// The number that no limit was written as.
const fn unlimited(memory: i64) -> i64 {
    if memory >= ALL_MEMORY { UNLIMITED } else { memory }
}

#[cfg(test)]
mod tests;

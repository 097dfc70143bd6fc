//! Limits for which the Engine API has fields: in requests for a create or an update, and in answers to an
//! inspect. If an update has removed a limit, the inspect may show a negative or a very large number.
//!
//! Huge pages and verbatim cgroup keys have no field in the Engine API: see [`super::cgroup_files`].

use super::cgroup_files::{CgroupFile, IfMissing, cgroup_files};
use crate::{
    error::Failure,
    model::{
        engine::EngineInfo,
        resources::{ALL_MEMORY, Resources, SWAP_MAX, UNLIMITED, if_set},
    },
    wire::docker::{ContainerUpdateBody, HostConfig, InspectHostConfig},
};

/// The limits that the engine reports for a container.
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

/// Writes the limits of a new container into its create request. Fails if swap limits contradict the memory limit or
/// each other.
pub fn create(host: &mut HostConfig, limits: &Resources, oom_floor: i64) -> Result<(), Failure> {
    check_swap(limits, limits)?;
    host.cpu_period = if_set(limits.cpu_period);
    host.cpu_quota = if_set(limits.cpu_quota);
    host.cpu_shares = if_set(limits.cpu_shares);
    host.memory = if_set(limits.memory_limit);
    host.memory_swap = memory_swap(limits);
    host.cpuset_cpus = listed(&limits.cpuset_cpus);
    host.cpuset_mems = listed(&limits.cpuset_mems);
    host.oom_score_adj = Some(oom_score_adj(limits.oom_score_adj, oom_floor));
    Ok(())
}

/// An update of a container: the request to the engine, and the cgroup files that dockbridge writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// `None` if the engine has nothing to change.
    pub body: Option<ContainerUpdateBody>,
    pub files: Vec<CgroupFile>,
}

/// Plans an update to the limits `after`, of which `requested` are new ([`Resources::updated`]). A change of memory or
/// swap sends both limits if they are set, because the engine would compare one new limit with the old other limit.
/// Fails if swap limits contradict the memory limit or each other, or if a limit needs cgroup v2 and the host has v1.
pub fn update(
    requested: &Resources,
    after: &Resources,
    engine: &EngineInfo,
) -> Result<Update, Failure> {
    let memory = requested.memory_limit != 0
        || requested.memory_swap_limit != 0
        || (requested.unified.contains_key(SWAP_MAX) && after.memory_limit > 0);
    check_swap(requested, after)?;
    let swap = memory_swap(after);
    let body = ContainerUpdateBody {
        cpu_period: if_set(requested.cpu_period),
        cpu_quota: if_set(requested.cpu_quota),
        cpu_shares: if_set(requested.cpu_shares),
        memory: if_set(after.memory_limit).map(as_number).filter(|_| memory),
        memory_swap: swap.map(|swap| together(swap, engine)).filter(|_| memory),
        cpuset_cpus: listed(&requested.cpuset_cpus),
        cpuset_mems: listed(&requested.cpuset_mems),
        pids_limit: if_set(requested.pids_limit),
        memory_reservation: if_set(requested.memory_reservation),
        ..ContainerUpdateBody::default()
    };
    let body = Some(body).filter(|body| *body != ContainerUpdateBody::default());
    let mut files = cgroup_files(after, engine)?;
    // Docker does not pass -1 in an update to the OCI runtime, so the kernel would keep the old limit.
    let frees_swap = memory && swap == Some(UNLIMITED) && engine.cgroup_version == 2;
    if frees_swap && !files.iter().any(|file| file.file == SWAP_MAX) {
        let file = CgroupFile::unified(SWAP_MAX, "max");
        files.push(CgroupFile { if_missing: IfMissing::Ignore, ..file });
    }
    Ok(Update { body, files })
}

/// The limit of memory and swap together for an update. "Unlimited" is a large number on cgroup v1, where the engine
/// would not pass -1 to the OCI runtime, and -1 on cgroup v2, where the OCI runtime would subtract the memory limit
/// from a number.
const fn together(swap: i64, engine: &EngineInfo) -> i64 {
    if engine.cgroup_version == 2 { swap } else { as_number(swap) }
}

/// A memory limit for an update: "unlimited" is a large number.
const fn as_number(memory: i64) -> i64 {
    if memory == UNLIMITED { ALL_MEMORY } else { memory }
}

fn listed(list: &str) -> Option<String> {
    (!list.is_empty()).then(|| list.to_owned())
}

/// The OOM score adjustment, raised to the lowest value that the engine may set on this host.
pub fn oom_score_adj(requested: i64, floor: i64) -> i64 {
    requested.max(floor).clamp(-1000, 1000)
}

/// Refuses swap limits that contradict the memory limit or each other. Of the limits in `merged`, `asked` are new.
fn check_swap(asked: &Resources, merged: &Resources) -> Result<(), Failure> {
    let (memory, together) = (merged.memory_limit, merged.memory_swap_limit);
    if !matches!(together, 0 | UNLIMITED) {
        if memory <= 0 {
            // Without a memory limit, the sum of memory and swap does not say how much is for swap.
            return Err(Failure::invalid(format!(
                "{SWAP}: {together} needs a memory limit as well"
            )));
        }
        if together < memory {
            return Err(Failure::invalid(format!(
                "{SWAP}: {together} is less than the memory limit {memory}, which it includes"
            )));
        }
    }
    let Some(alone) = asked.unified.get(SWAP_MAX) else { return Ok(()) };
    let agree = match asked.memory_swap_limit {
        0 => true,
        UNLIMITED => alone == "max",
        together => alone.parse() == Ok(together.saturating_sub(memory)),
    };
    if agree {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "linux.resources.unified[\"memory.swap.max\"]: {alone} disagrees with \
         memory_swap_limit_in_bytes"
    )))
}

/// The limit of memory and swap together, for limits that passed [`check_swap`]. If a request has a memory limit and no
/// swap limit, the engine would allow as much swap as memory, but Kubernetes expects no swap. kubelet limits swap with
/// this limit on cgroup v1, and with `memory.swap.max` (swap alone) on v2.
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

/// A memory limit of an inspect, with [`UNLIMITED`] instead of the large number of [`as_number`].
const fn unlimited(memory: i64) -> i64 {
    if memory >= ALL_MEMORY { UNLIMITED } else { memory }
}

const SWAP: &str = "linux.resources.memory_swap_limit_in_bytes";

#[cfg(test)]
mod tests;

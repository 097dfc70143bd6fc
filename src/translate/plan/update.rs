//! The update of a container's limits, and its reversal.

use super::{
    cgroup_files::{CgroupFile, cgroup_files},
    error::PlanError,
    resources::{check_swap, memory_swap, stated},
};
use crate::{
    model::{
        engine::EngineInfo,
        resources::{ALL_MEMORY, Resources, SWAP_MAX, UNLIMITED},
    },
    wire::docker::ContainerUpdateBody,
};

/// What to ask of the engine, and which files to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// For the engine; none when it has nothing to change.
    pub call: Option<UpdateCall>,
    /// What the engine does not set.
    pub files: Vec<CgroupFile>,
}

/// One call of the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateCall {
    /// Its body.
    pub body: ContainerUpdateBody,
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
    let call = (body != ContainerUpdateBody::default()).then_some(UpdateCall { body });
    Ok(Update { call, files: cgroup_files(after, engine)? })
}

impl UpdateCall {
    /// The call that reverts this one. Where nothing was set, that is no limit. An empty list of CPUs
    /// or memory nodes cannot be sent to the engine, so these revert to the `current` ones.
    pub fn revert(&self, before: &Resources, current: &CpusetLists, engine: &EngineInfo) -> Self {
        let set = &self.body;
        let back =
            |now: Option<i64>, was: i64, none: i64| now.map(|_| if was == 0 { none } else { was });
        let list = |now: &Option<String>, was: &str, current: &Option<String>| {
            let stated = || listed(was).or_else(|| current.as_deref().and_then(listed));
            now.as_ref().and_then(|_| stated())
        };
        let memory = back(set.memory, before.memory_limit, UNLIMITED);
        let swap = back(set.memory_swap, before.memory_swap_limit, UNLIMITED);
        Self {
            body: ContainerUpdateBody {
                cpu_period: back(set.cpu_period, before.cpu_period, DEFAULT_PERIOD),
                cpu_quota: back(set.cpu_quota, before.cpu_quota, UNLIMITED),
                cpu_shares: back(set.cpu_shares, before.cpu_shares, DEFAULT_SHARES),
                memory: memory.map(as_number),
                memory_swap: swap.map(|swap| together(swap, engine)),
                cpuset_cpus: list(&set.cpuset_cpus, &before.cpuset_cpus, &current.cpus),
                cpuset_mems: list(&set.cpuset_mems, &before.cpuset_mems, &current.mems),
                pids_limit: back(set.pids_limit, before.pids_limit, UNLIMITED),
                // Without one it cannot be sent: the engine takes 0 for no change.
                memory_reservation: set
                    .memory_reservation
                    .and_then(|_| stated(before.memory_reservation)),
                ..ContainerUpdateBody::default()
            },
        }
    }
}

/// The CPUs and memory nodes a container has, in the kernel's list format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpusetLists {
    /// CPUs; none where the kernel does not report them.
    pub cpus: Option<String>,
    /// Memory nodes, likewise.
    pub mems: Option<String>,
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

/// The kernel's own period in microseconds.
const DEFAULT_PERIOD: i64 = 100_000;
/// The kernel's own share.
const DEFAULT_SHARES: i64 = 1024;

#[cfg(test)]
mod tests;

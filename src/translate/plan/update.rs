//! The update of a container's limits.

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

#[cfg(test)]
mod tests;

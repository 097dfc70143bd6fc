//! Changed limits of a container, in the engine's words, and the way back.

use super::{
    error::PlanError,
    extras::{Setting, extras},
    resources::{memory_swap, stated},
};
use crate::{
    model::{
        engine::EngineInfo,
        resources::{ALL_MEMORY, Resources, SWAP_MAX, UNLIMITED},
    },
    wire::docker::ContainerUpdateBody,
};

/// What to ask of the engine, and to write beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// For the engine; none when nothing is its affair.
    pub call: Option<UpdateCall>,
    /// All that the engine does not set.
    pub settings: Vec<Setting>,
}

/// One call of the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateCall {
    /// Its body.
    pub body: ContainerUpdateBody,
}

/// Plans the step from limits to others, of which `asked` are new ([`Resources::updated`]). Memory
/// and swap are sent together: alone, the engine measures the one against the old other.
///
/// # Errors
/// When the limits cannot be expressed.
pub fn update(
    asked: &Resources,
    after: &Resources,
    engine: &EngineInfo,
) -> Result<Update, PlanError> {
    let memory = asked.memory_limit != 0
        || asked.memory_swap_limit != 0
        || (asked.unified.contains_key(SWAP_MAX) && after.memory_limit > 0);
    let swap = memory_swap(after)?;
    let body = ContainerUpdateBody {
        cpu_period: stated(asked.cpu_period),
        cpu_quota: stated(asked.cpu_quota),
        cpu_shares: stated(asked.cpu_shares),
        memory: stated(after.memory_limit).map(in_numbers).filter(|_| memory),
        memory_swap: swap.map(|swap| together(swap, engine)).filter(|_| memory),
        cpuset_cpus: listed(&asked.cpuset_cpus),
        cpuset_mems: listed(&asked.cpuset_mems),
        ..ContainerUpdateBody::default()
    };
    let call = (body != ContainerUpdateBody::default()).then_some(UpdateCall { body });
    Ok(Update { call, settings: extras(after, engine)? })
}

impl UpdateCall {
    /// The call that puts back what this one changes. Where nothing was set, that is no limit; of
    /// CPUs and nodes, which the engine cannot be told to list none of, it is what was `held`.
    pub fn undone(&self, before: &Resources, held: &Lists, engine: &EngineInfo) -> Self {
        let set = &self.body;
        let back =
            |now: Option<i64>, was: i64, none: i64| now.map(|_| if was == 0 { none } else { was });
        let list = |now: &Option<String>, was: &str, held: &Option<String>| {
            let stated = || listed(was).or_else(|| held.as_deref().and_then(listed));
            now.as_ref().and_then(|_| stated())
        };
        let memory = back(set.memory, before.memory_limit, UNLIMITED);
        let swap = back(set.memory_swap, before.memory_swap_limit, UNLIMITED);
        Self {
            body: ContainerUpdateBody {
                cpu_period: back(set.cpu_period, before.cpu_period, USUAL_PERIOD),
                cpu_quota: back(set.cpu_quota, before.cpu_quota, UNLIMITED),
                cpu_shares: back(set.cpu_shares, before.cpu_shares, USUAL_SHARES),
                memory: memory.map(in_numbers),
                memory_swap: swap.map(|swap| together(swap, engine)),
                cpuset_cpus: list(&set.cpuset_cpus, &before.cpuset_cpus, &held.cpus),
                cpuset_mems: list(&set.cpuset_mems, &before.cpuset_mems, &held.mems),
                ..ContainerUpdateBody::default()
            },
        }
    }
}

/// The CPUs and memory nodes a container has, in the kernel's list format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// CPUs; none where the kernel does not tell.
    pub cpus: Option<String>,
    /// Memory nodes, likewise.
    pub mems: Option<String>,
}

/// A limit of memory and swap together in a form the engine takes. On version 1 the runtime writes
/// no limit before it has lifted that of memory, which the kernel refuses; a number it writes in
/// the right order. On version 2 the engine subtracts memory from a number, and none is none.
const fn together(swap: i64, engine: &EngineInfo) -> i64 {
    if engine.cgroup_version == 2 { swap } else { in_numbers(swap) }
}

/// A limit of memory in a form the engine takes.
const fn in_numbers(memory: i64) -> i64 {
    if memory == UNLIMITED { ALL_MEMORY } else { memory }
}

fn listed(list: &str) -> Option<String> {
    (!list.is_empty()).then(|| list.to_owned())
}

/// The kernel's own period in microseconds.
const USUAL_PERIOD: i64 = 100_000;
/// The kernel's own share.
const USUAL_SHARES: i64 = 1024;

#[cfg(test)]
mod tests;

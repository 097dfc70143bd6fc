//! Limits of a container in the engine's words. What was lifted by an update is written as a
//! negative number there, as an unlimited quota is.

use crate::{
    model::resources::{ALL_MEMORY, Resources, UNLIMITED},
    wire::docker::InspectHostConfig,
};

/// The limits the engine starts the container with, or has set since.
pub(super) fn limits(host: &InspectHostConfig) -> Resources {
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

/// The number that no limit was written as.
const fn unlimited(memory: i64) -> i64 {
    if memory >= ALL_MEMORY { UNLIMITED } else { memory }
}
